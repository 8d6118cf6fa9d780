package lab

// From Debian packages to the files of the guest. Stages: unpack packages into a tree in memory
// (with /bin, /sbin, /lib merged into /usr), pick files by pattern with everything that they need
// (targets of links, ELF interpreters, shared objects), and write the picked ones as a cpio
// archive.

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"sort"
	"strings"
)

// A node is a file or symbolic link of the tree.
type node struct {
	mode uint32
	data []byte // the target, for a symbolic link
}

// A tree maps paths without leading slash to files.
type tree map[string]node

// unmerged are the folders that Debian's base system links into /usr.
var unmerged = []string{"bin", "sbin", "lib", "lib64"}

// merged gives the path of name in a system where /bin, /sbin and /lib are links into /usr.
func merged(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	first, _, _ := strings.Cut(name, "/")
	for _, dir := range unmerged {
		if first == dir {
			return "usr/" + name
		}
	}
	return name
}

// unpack adds the files of one .deb whose merged path is wanted.
func (t tree) unpack(ctx context.Context, deb string, wanted func(name string) bool) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := t.read(tar.NewReader(out), wanted)
	io.Copy(io.Discard, out)
	if err := errors.Join(cmd.Wait(), readErr); err != nil {
		return fmt.Errorf("unpack %s: %w %s", deb, err, complaint.Bytes())
	}
	return nil
}

func (t tree) read(r *tar.Reader, wanted func(string) bool) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name := merged(h.Name)
		if !wanted(name) {
			continue
		}
		switch h.Typeflag {
		case tar.TypeReg:
			data, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			t[name] = node{mode: modeRegular | uint32(h.Mode&0o7777), data: data}
		case tar.TypeLink:
			t[name] = t[merged(h.Linkname)]
		case tar.TypeSymlink:
			target := merged(h.Linkname)
			if !path.IsAbs(h.Linkname) {
				target = merged(path.Join(path.Dir(name), h.Linkname))
			}
			// sbin/ip -> /bin/ip and its like stay; bin/x -> /usr/bin/x is itself.
			if target != name {
				t[name] = node{mode: modeSymlink | 0o777, data: []byte("/" + target)}
			}
		}
	}
}

// A selection is the part of a tree that goes into an archive.
type selection struct {
	from  tree
	taken map[string]bool
	below map[string]bool // taken by an archive that lies under this one
}

func newSelection(from tree, below map[string]bool) *selection {
	return &selection{from: from, taken: map[string]bool{}, below: below}
}

// takeAll applies an archive's patterns; one that matches nothing is an error, because it is a
// program missing later.
func (s *selection) takeAll(a archive) error {
	for _, pattern := range a.Take {
		if err := s.takeMatching(pattern, func(name string) string { return name }); err != nil {
			return err
		}
	}
	depthOf := func(pattern string) int { return strings.Count(pattern, "/") + 1 }
	for _, pattern := range a.Whole {
		folder := func(name string) string {
			parts := strings.Split(name, "/")
			if len(parts) <= depthOf(pattern) || dropped(parts[depthOf(pattern):], a.Drop) {
				return ""
			}
			return strings.Join(parts[:depthOf(pattern)], "/")
		}
		if err := s.takeMatching(pattern, folder); err != nil {
			return err
		}
	}
	return nil
}

func dropped(parts, drop []string) bool {
	for _, part := range parts {
		for _, pattern := range drop {
			if ok, _ := path.Match(pattern, part); ok {
				return true
			}
		}
	}
	return false
}

func (s *selection) takeMatching(pattern string, key func(string) string) error {
	found := false
	for name := range s.from {
		if ok, err := path.Match(pattern, key(name)); err != nil {
			return fmt.Errorf("pattern %q: %w", pattern, err)
		} else if ok {
			found = true
			if err := s.take(name); err != nil {
				return err
			}
		}
	}
	if !found {
		return fmt.Errorf("no file of the packages matches %q", pattern)
	}
	return nil
}

// take adds one file and what it needs.
func (s *selection) take(name string) error {
	if s.taken[name] || s.below[name] {
		return nil
	}
	n, ok := s.from[name]
	if !ok {
		return fmt.Errorf("%s is needed, but no package has it", name)
	}
	s.taken[name] = true
	if n.mode&modeSymlink == modeSymlink {
		return s.take(strings.TrimPrefix(string(n.data), "/"))
	}
	needed, err := sharedObjects(n.data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, object := range needed {
		where, err := s.locate(object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := s.take(where); err != nil {
			return err
		}
	}
	return nil
}

// libraryFolders are where the guest's dynamic linker looks without a cache file.
var libraryFolders = []string{"usr/lib/x86_64-linux-gnu", "usr/lib", "usr/lib64"}

func (s *selection) locate(object string) (string, error) {
	if path.IsAbs(object) {
		return merged(object), nil
	}
	for _, dir := range libraryFolders {
		if _, ok := s.from[dir+"/"+object]; ok {
			return dir + "/" + object, nil
		}
	}
	return "", fmt.Errorf("shared object %s is in none of %v", object, libraryFolders)
}

// sharedObjects lists what an ELF file asks for: its interpreter as a path, its libraries as names.
// Other files ask nothing.
func sharedObjects(data []byte) ([]string, error) {
	if !bytes.HasPrefix(data, []byte(elf.ELFMAG)) {
		return nil, nil
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var needed []string
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, err
			}
			needed = append(needed, strings.TrimRight(string(text), "\x00"))
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	return append(needed, libraries...), nil
}

// write adds the taken files to an archive in the order of their names, so that equal inputs give
// equal archives.
func (s *selection) write(c *cpioWriter) {
	names := make([]string, 0, len(s.taken))
	for name := range s.taken {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		c.add(name, s.from[name].mode, s.from[name].data)
	}
}
