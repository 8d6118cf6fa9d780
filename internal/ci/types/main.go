// Command types type-checks every package of the module, tests included, for systems that it does
// not run on: types GOOS/GOARCH... It finds what a compiler would refuse there, such as a constant
// that overflows an int of 32 bits, in a tenth of the time that compiling takes: of packages from
// elsewhere only the declarations are checked, and each file is parsed once for all systems.
//
// Stages: have go list say, for each system, which files the packages have, dependencies first;
// check the packages in that order.
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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles, SFiles []string
	ImportMap       map[string]string // import path in the source to ImportPath, where they differ
	Module          *struct {
		Main      bool
		GoVersion string
	}
	Error *struct{ Err string }
}

func main() {
	var all sync.WaitGroup
	var failed atomic.Bool
	for _, system := range os.Args[1:] {
		all.Go(func() {
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
	packages, err := list(goos, arch)
	if err != nil {
		return 0, err
	}
	var wrong []error
	known := map[string]*gotypes.Package{"unsafe": gotypes.Unsafe}
	for _, p := range packages {
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
		known[p.ImportPath], _ = config.Check(p.ImportPath, files, syntax, nil)
		if ours {
			wrong = append(wrong, bodiless(p, syntax)...)
		}
	}
	return n, errors.Join(wrong...)
}

// list returns the packages of the module and all that they need, dependencies first.
func list(goos, arch string) (packages []*listed, err error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-test", "-pgo=off",
		"-json=ImportPath,Dir,GoFiles,SFiles,ImportMap,Module,Error", "./...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	for all := json.NewDecoder(bytes.NewReader(out)); ; {
		p := &listed{}
		if err := all.Decode(p); err == io.EOF {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
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

func parse(p *listed) (syntax []*ast.File, err error) {
	for _, name := range p.GoFiles {
		path := filepath.Join(p.Dir, name)
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
