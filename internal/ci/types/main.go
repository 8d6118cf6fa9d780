// Command types type-checks and vets every package of goroce, tests included, for systems that it
// does not run on: types GOOS/GOARCH... It finds what a compiler would refuse there, such as a
// constant that overflows an int of 32 bits, and what go vet would say, in a tenth of the time that
// compiling takes: of packages from elsewhere only the declarations are checked, and each file is
// parsed once for all systems. It is a module of its own, so that nobody who uses goroce downloads
// the analyzers.
//
// Stages: have go list say, for each system, which files the packages have, dependencies first;
// check the types in that order; have the analyzers of go vet look at those of goroce.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/packages"
)

// root is the folder of goroce's own module: go run -C comes here.
const root = "../../.."

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Name                   string
	GoFiles, SFiles, HFiles, IgnoredGoFiles []string
	Imports                                 []string          // ImportPaths
	ImportMap                               map[string]string // those in the source to Imports
	Module                                  *packages.Module
	Error                                   *struct{ Err string }
}

func main() {
	var all sync.WaitGroup
	var failed atomic.Bool
	turn := make(chan bool, runtime.GOMAXPROCS(0)) // each system takes half a gigabyte
	for _, system := range os.Args[1:] {
		all.Go(func() {
			turn <- true
			defer func() { <-turn }()
			if n, err := check(system); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", system, err)
				failed.Store(true)
			} else {
				fmt.Printf("ok  \ttypes\t%s: %d packages\n", system, n)
			}
		})
	}
	all.Wait()
	if failed.Load() {
		os.Exit(1)
	}
}

// check checks the module for one system and returns how many packages it has.
func check(system string) (n int, err error) {
	goos, arch, ok := strings.Cut(system, "/")
	sizes := gotypes.SizesFor("gc", arch)
	if !ok || sizes == nil {
		return 0, errors.New("a system such as linux/s390x is right")
	}
	all, err := list(goos, arch)
	if err != nil {
		return 0, err
	}
	var wrong []error
	var roots []*packages.Package
	known := map[string]*gotypes.Package{"unsafe": gotypes.Unsafe}
	vetted := map[string]*packages.Package{}
	for _, p := range all {
		ours := p.Module != nil && p.Module.Main
		if ours {
			n++
		}
		if p.Error != nil {
			wrong = append(wrong, errors.New(p.Error.Err))
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") { // no files yet
			continue
		}
		config := gotypes.Config{Sizes: sizes, IgnoreFuncBodies: !ours,
			Importer: importer{p.ImportMap, known},
			Error:    func(err error) { wrong = append(wrong, err) }}
		if p.Module != nil && p.Module.GoVersion != "" {
			config.GoVersion = "go" + p.Module.GoVersion
		}
		syntax, err := parse(p)
		if err != nil {
			return n, err
		}
		info := newInfo(ours)
		known[p.ImportPath], _ = config.Check(p.ImportPath, files, syntax, info)
		if ours {
			wrong = append(wrong, bodiless(p, syntax)...)
			vetted[p.ImportPath] = analyzed(p, known[p.ImportPath], syntax, info, sizes, vetted)
			if !slices.ContainsFunc(all, p.within) && fresh(p, sizes) {
				roots = append(roots, vetted[p.ImportPath])
			}
		}
	}
	if len(wrong) > 0 { // the analyzers want what is well-typed
		return n, errors.Join(wrong...)
	}
	return n, analyze(roots)
}

// within says whether another package is this one with its tests.
func (p *listed) within(other *listed) bool {
	return other.ImportPath == p.ImportPath+" ["+p.ImportPath+".test]"
}

// seen has what analyzers have looked at, on any system.
var seen sync.Map

// fresh says whether the analyzers have yet to look at a package: what they find depends on its
// files and on the size of an int, and the tests of others have it compiled anew as it is.
func fresh(p *listed, sizes gotypes.Sizes) bool {
	path, _, _ := strings.Cut(p.ImportPath, " ")
	key := fmt.Sprint(path, p.GoFiles, p.SFiles, sizes.Sizeof(gotypes.Typ[gotypes.Int]))
	_, before := seen.LoadOrStore(key, true)
	return !before
}

// newInfo returns what the type checker is to fill in for the analyzers.
func newInfo(ours bool) *gotypes.Info {
	if !ours {
		return nil
	}
	return &gotypes.Info{
		Types:        map[ast.Expr]gotypes.TypeAndValue{},
		Instances:    map[*ast.Ident]gotypes.Instance{},
		Defs:         map[*ast.Ident]gotypes.Object{},
		Uses:         map[*ast.Ident]gotypes.Object{},
		Implicits:    map[ast.Node]gotypes.Object{},
		Selections:   map[*ast.SelectorExpr]*gotypes.Selection{},
		Scopes:       map[ast.Node]*gotypes.Scope{},
		FileVersions: map[*ast.File]string{},
	}
}

// analyzed returns a package as analyzers want it. Of those that it imports they see goroce's own:
// what they must know of others, such as that log.Printf formats, is in tables of theirs.
func analyzed(p *listed, types *gotypes.Package, syntax []*ast.File, info *gotypes.Info, sizes gotypes.Sizes,
	vetted map[string]*packages.Package) *packages.Package {
	imports := map[string]*packages.Package{}
	for _, path := range p.Imports {
		if q := vetted[path]; q != nil {
			imports[path] = q
		}
	}
	return &packages.Package{ID: p.ImportPath, PkgPath: types.Path(), Name: p.Name, Module: p.Module, Imports: imports,
		Fset: files, Syntax: syntax, Types: types, TypesInfo: info, TypesSizes: sizes,
		OtherFiles: p.in(slices.Concat(p.SFiles, p.HFiles)), IgnoredFiles: p.in(p.IgnoredGoFiles)}
}

// analyze returns what go vet would say of the packages. What it says of one and of the same with
// its tests is one finding.
func analyze(all []*packages.Package) error {
	graph, err := checker.Analyze(vet.Suite, all, nil)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, action := range graph.Roots {
		if action.Err != nil {
			found[action.Err.Error()] = true
		}
		for _, d := range action.Diagnostics {
			found[fmt.Sprintf("%s: %s", files.Position(d.Pos), d.Message)] = true
		}
	}
	var wrong []error
	for _, text := range slices.Sorted(maps.Keys(found)) {
		wrong = append(wrong, errors.New(text))
	}
	return errors.Join(wrong...)
}

// list returns the packages of the module and all that they need, dependencies first.
func list(goos, arch string) (all []*listed, err error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-test", "-pgo=off",
		"-json=ImportPath,Dir,Name,GoFiles,SFiles,HFiles,IgnoredGoFiles,Imports,ImportMap,Module,Error", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := lines.Decode(p); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
}

// importer finds what a package imports among those checked before it.
type importer struct {
	names map[string]string
	known map[string]*gotypes.Package
}

func (i importer) Import(path string) (*gotypes.Package, error) {
	if name, ok := i.names[path]; ok {
		path = name
	}
	if p := i.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}

// files are the positions in all files, and parsed is the files: names to functions that parse a
// file when they are called first.
var (
	files  = token.NewFileSet()
	parsed sync.Map
)

// in returns the paths of files of the package.
func (p *listed) in(names []string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(p.Dir, name))
	}
	return paths
}

func parse(p *listed) (syntax []*ast.File, err error) {
	for _, path := range p.in(p.GoFiles) {
		once, _ := parsed.LoadOrStore(path, sync.OnceValues(func() (*ast.File, error) {
			return parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		}))
		file, err := once.(func() (*ast.File, error))()
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, file)
	}
	return syntax, nil
}

// bodiless returns an error for each function without a body of a package that has no assembler in
// which the body could be. This the type checker leaves to the compiler.
func bodiless(p *listed, syntax []*ast.File) (wrong []error) {
	for _, file := range syntax {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body == nil && len(p.SFiles) == 0 && !linked(f) {
				wrong = append(wrong, fmt.Errorf("%s: %s has no body", files.Position(f.Pos()), f.Name.Name))
			}
		}
	}
	return wrong
}

// linked says whether a function's body is elsewhere by its own account.
func linked(f *ast.FuncDecl) bool {
	if f.Doc != nil {
		for _, c := range f.Doc.List {
			if strings.HasPrefix(c.Text, "//go:linkname ") {
				return true
			}
		}
	}
	return false
}
