//go:build linux

package launch

// Stages: what makes a folder one of the libraries; where it is looked for.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Files that the folder must have; others are there as far as they are built.
const preload = "libgoroce-view.so"

var wanted = []string{"libibverbs.so.1", "libgoroce-engine.so", preload}

// libraries is their folder.
type libraries string

func (l libraries) file(name string) string { return filepath.Join(string(l), name) }

func (l libraries) has(name string) bool {
	_, err := os.Stat(l.file(name))
	return err == nil
}

// lacks is the first file that is not there; "": none.
func (l libraries) lacks() string {
	for _, name := range wanted {
		if !l.has(name) {
			return name
		}
	}
	return ""
}

// embedded are the libraries inside the command, if it was built with the tag dropin
// (embedded.go); else nil.
var embedded fs.FS

// findLibraries finds them; the loader splits lists of paths at colons, semicolons and spaces.
func findLibraries() (libraries, error) {
	l, err := where()
	if err == nil && strings.ContainsAny(string(l), ":; ") {
		err = fmt.Errorf("%q: the loader wants a path without spaces, colons and semicolons; "+
			"GOROCE_LIBRARIES=FOLDER is another", l)
	}
	return l, err
}

// where is the folder that GOROCE_LIBRARIES names, or else what this command carries, or
// else what lies beside it.
func where() (libraries, error) {
	if named := libraries(os.Getenv("GOROCE_LIBRARIES")); named != "" {
		if lacks := named.lacks(); lacks != "" {
			return "", fmt.Errorf("GOROCE_LIBRARIES: %s is not there; make dropin makes it", named.file(lacks))
		}
		folder, err := filepath.Abs(string(named))
		return libraries(folder), err
	}
	if embedded != nil {
		files, err := unpacked(embedded)
		if err != nil {
			return "", err
		}
		folder, err := keep("libraries", files)
		return libraries(folder), err
	}
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid) // whom the user has trusted already
	beside := filepath.Dir(self)
	for _, folder := range []string{".", "../lib/goroce", "dropin/build"} {
		l := libraries(filepath.Join(beside, folder))
		if l.lacks() != "" {
			continue
		}
		folder, err := filepath.EvalSymlinks(string(l))
		if err == nil {
			err = safe(folder, os.Geteuid(), owner)
		}
		if err != nil {
			return "", fmt.Errorf("the libraries in %s are not trusted: %w; GOROCE_LIBRARIES=FOLDER says which are",
				l, err)
		}
		return libraries(folder), nil
	}
	return "", errors.New("the libraries for programs in C are neither in " + beside +
		" nor in ../lib/goroce or dropin/build from there: " +
		"make dropin makes them in dropin/build of the source; GOROCE_LIBRARIES=FOLDER says where they are; " +
		"make roce-dropin makes a roce that carries them")
}

// unpacked are the files of a file system's folder.
func unpacked(from fs.FS) (files, error) {
	all := files{}
	names, err := fs.Glob(from, "*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		all[name] = file{data: string(data)}
	}
	return all, nil
}
