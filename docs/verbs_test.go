package docs

// The table of the verbs, held to the code: what it names exists, and what package roce exports as
// a function or method is named. Stages: what roce has → what the table names → both ways.

import (
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// api is what packages export: functions, types, constants and variables by their names, methods
// and fields behind that of their type. calls are the functions and methods.
type api struct {
	names map[string]bool
	calls map[string]bool
	alias map[string]string // "QPAttr" is "qp.QPAttr"
}

func (a *api) add(s *source) {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			a.names[name] = true
			if ast.IsExported(name) && d.Name.IsExported() {
				a.calls[name] = true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				a.addSpec(spec)
			}
		}
	}
}

func (a *api) addSpec(spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			a.names[n.Name] = true
		}
	case *ast.TypeSpec:
		a.names[s.Name.Name] = true
		switch t := s.Type.(type) {
		case *ast.StructType:
			for _, f := range t.Fields.List {
				for _, n := range f.Names {
					a.names[s.Name.Name+"."+n.Name] = true
				}
			}
		case *ast.SelectorExpr:
			a.alias[s.Name.Name] = t.X.(*ast.Ident).Name + "." + t.Sel.Name
		}
	}
}

// receiver is the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// has says whether a name exists, looking through aliases for fields.
func (a *api) has(name string, others map[string]*api) bool {
	typ, field, of := strings.Cut(name, ".")
	if a.names[name] || !of {
		return a.names[name]
	}
	pkg, target, ok := strings.Cut(a.alias[typ], ".")
	return ok && others[pkg] != nil && others[pkg].names[target+"."+field]
}

var goName = regexp.MustCompile("`([A-Z][A-Za-z0-9]*(?:\\.[A-Z][A-Za-z0-9]*)?)`")

var footnote = regexp.MustCompile(`\[\^[a-z]+\]`)

// notVerbs are the texts of things.
var notVerbs = regexp.MustCompile(`\.(String|MarshalText|UnmarshalText|Error|Unwrap|Is)$`)

func TestVerbsTable(t *testing.T) {
	packages := map[string]*api{}
	for _, name := range []string{"roce", "qp", "mr", "wire"} {
		packages[name] = &api{map[string]bool{}, map[string]bool{}, map[string]string{}}
	}
	each(t, func(s *source) {
		if a := packages[s.folder]; a != nil && !s.test {
			a.add(s)
		}
	})
	roce := packages["roce"]
	text, err := os.ReadFile("verbs.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		porting := len(cells) == 4 // the table of what is more than another name
		if len(cells) != 6 && !porting {
			t.Errorf("verbs.md:%d: a row of %d cells, want 4, or 2 in the table on porting", i+1, len(cells)-2)
			continue
		}
		for _, m := range goName.FindAllStringSubmatch(cells[2], -1) {
			named[m[1]] = named[m[1]] || !porting
			if !roce.has(m[1], packages) {
				t.Errorf("verbs.md:%d: package roce has no %s", i+1, m[1])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(roce.calls)) {
		if !named[name] && !notVerbs.MatchString(name) {
			t.Errorf("verbs.md has no row for roce.%s", name)
		}
	}
	if len(roce.calls) < 100 {
		t.Errorf("only %d functions and methods were found", len(roce.calls))
	}
	for _, m := range footnote.FindAllStringSubmatch(string(text), -1) {
		if !strings.Contains(string(text), "\n"+m[0]+": ") {
			t.Errorf("verbs.md: there is no note %s", m[0])
		}
	}
}
