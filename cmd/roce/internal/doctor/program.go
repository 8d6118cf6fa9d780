package doctor

// What a program of somebody else's needs of the libraries of rdma-core, and whether those that the
// loader will find for it have that.
//
// Stages: the record, reading a program, finding a library as the loader does, the verdicts.

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// library is one of rdma-core's libraries. Those of NIC vendors are here as programs that work with
// any NIC are linked with them.
type library struct {
	name  string
	alone Grade // what it is if rdma-core's own stands in where ours of the others are found
}

var libraries = []library{
	{"libibverbs.so.1", Wrong},
	{"librdmacm.so.1", Note},
	{"libmlx5.so.1", Wrong}, // it registers with its libibverbs, or ends the program
	{"libmlx4.so.1", Wrong},
	{"libefa.so.1", Wrong},
	{"libhns.so.1", Wrong},
	{"libmana.so.1", Wrong},
}

// engine is beside a libibverbs that is ours, and only there.
const engine = "libgoroce-engine.so"

// program is what is known of a program.
type program struct {
	file   string
	setuid bool
	loader string // its interpreter; "": it is a library, or linked statically
	itself bool   // it loads libibverbs itself: its name is in the data
	needs  []need
}

// need is what a program needs of one library.
type need struct {
	library
	functions int
	found     string   // its file; "": none where LD_LIBRARY_PATH and the program lead
	fixed     bool     // the program's own RPATH led there, which comes before LD_LIBRARY_PATH
	ours      bool     // it is goroce's
	missing   []string // the functions that it lacks, with their versions
}

// readProgram reads a program or a library.
func readProgram(file string) (*program, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("--program: %w", err)
	}
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--program %s: want a program or a library in ELF: %w", file, err)
	}
	defer f.Close()
	p := &program{file: file, setuid: info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0}
	for _, s := range f.Sections {
		if s.Name != ".interp" && s.Name != ".rodata" {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("--program %s: section %s: %w", file, s.Name, err)
		}
		if s.Name == ".interp" {
			p.loader = string(bytes.TrimRight(data, "\x00"))
		}
		p.itself = p.itself || bytes.Contains(data, []byte("libibverbs.so"))
	}
	linked, _ := f.ImportedLibraries() // one that is linked statically has none
	symbols, _ := f.ImportedSymbols()
	for _, l := range libraries {
		if slices.Contains(linked, l.name) {
			p.needs = append(p.needs, needOf(f, file, l, symbols))
		}
	}
	return p, nil
}

// needOf compares what a program imports from a library with what is there.
func needOf(f *elf.File, file string, l library, symbols []elf.ImportedSymbol) need {
	n := need{library: l}
	n.found, n.fixed = findLibrary(f, file, l.name)
	has := exports(n.found)
	if n.found != "" {
		_, err := os.Stat(filepath.Join(filepath.Dir(n.found), engine))
		n.ours = err == nil
	}
	for _, s := range symbols {
		if s.Library != l.name {
			continue
		}
		n.functions++
		if versioned := s.Name + "@" + s.Version; n.found != "" && !has[versioned] {
			n.missing = append(n.missing, versioned)
		}
	}
	return n
}

// findLibrary looks where the loader looks, before it looks among the system's libraries.
func findLibrary(f *elf.File, file, name string) (path string, fixed bool) {
	rpath, _ := f.DynString(elf.DT_RPATH)
	runpath, _ := f.DynString(elf.DT_RUNPATH)
	if len(runpath) > 0 {
		rpath = nil // as the loader has it
	}
	origin := strings.NewReplacer("$ORIGIN", filepath.Dir(file), "${ORIGIN}", filepath.Dir(file))
	for i, list := range [][]string{rpath, {os.Getenv("LD_LIBRARY_PATH")}, runpath} {
		for _, folder := range filepath.SplitList(origin.Replace(strings.Join(list, ":"))) {
			path := filepath.Join(cmp.Or(folder, "."), name)
			if _, err := os.Stat(path); err == nil {
				return path, i == 0
			}
		}
	}
	return "", false
}

// exports are the functions of a library, each with its version; none if it cannot be read.
func exports(file string) map[string]bool {
	has := map[string]bool{}
	f, err := elf.Open(file)
	if err != nil {
		return has
	}
	defer f.Close()
	symbols, _ := f.DynamicSymbols()
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			has[s.Name+"@"+s.Version] = true
		}
	}
	return has
}

// judgeProgram makes a verdict of each thing that the loader does.
func judgeProgram(p *program) verdicts {
	list := verdicts{loaderVerdict(p)}
	list[0].Check = "loader"
	for _, n := range p.needs {
		v := needVerdict(n)
		v.Check, _, _ = strings.Cut(n.name, ".")
		list = append(list, v)
	}
	return list
}

func loaderVerdict(p *program) Verdict {
	switch {
	case p.setuid:
		return verdict(Wrong, "%s is setuid or setgid: LD_LIBRARY_PATH does not count for it",
			p.file).but("start it as that user, from a copy without the bit")
	case strings.Contains(p.loader, "ld-musl"):
		return verdict(Wrong, "%s is of musl (%s), and the libraries are of glibc",
			p.file, p.loader).but("take the program of a system with glibc, such as Debian")
	case len(p.needs) > 0:
		return verdict(Right, "%s is linked with %d of rdma-core's libraries", p.file, len(p.needs))
	case p.itself:
		return verdict(Note, "%s loads libibverbs.so.1 itself; the file does not say what it wants of it", p.file)
	}
	return verdict(Wrong, "%s is linked with none of rdma-core's libraries",
		p.file).but("name the library or plug-in of it that is: ldd %s", p.file)
}

func needVerdict(n need) Verdict {
	const build = "make dropin; export LD_LIBRARY_PATH=$PWD/dropin/build"
	switch {
	case n.found == "" && n.alone == Note:
		return verdict(Note, "%d functions, of rdma-core's own, which finds no device of goroce's", n.functions)
	case n.found == "":
		return verdict(Wrong, "%d functions, and LD_LIBRARY_PATH leads to none of goroce's", n.functions).but(build)
	case !n.ours && n.fixed:
		return verdict(Wrong, "%s, to which the program's RPATH leads, is not goroce's",
			n.found).but("patchelf --remove-rpath, on a copy of the program")
	case !n.ours:
		return verdict(Wrong, "%s is not goroce's", n.found).but("%s:$LD_LIBRARY_PATH", build)
	case len(n.missing) > 0:
		return verdict(Wrong, "%d of %d functions are not in %s: %s", len(n.missing), n.functions, n.found,
			strings.Join(n.missing, ", ")).but("send us this line and the program's name and version")
	}
	return verdict(Right, "%d functions, all in %s", n.functions, n.found)
}
