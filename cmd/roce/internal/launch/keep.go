//go:build linux

package launch

// Folders in the user's cache. A folder's name is the hash of what is in it, so that it is written
// once and then only compared; nobody else can have written it, as it lies in a folder that is the
// user's own and closed to others, and that nobody else can put another in the place of: not even
// later, as the loader reads what is there when the program opens a device. What is written appears
// under its name only when it is whole.
// What no program has had for a month goes: who has a folder keeps it open and locked, and with it
// the program that follows.
//
// Stages: what a folder holds; its name; the place for all of them; who can change what lies at a
// path; comparing; writing; who uses it; sweeping.

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// file is what a folder holds under a name: bytes, or a link to elsewhere.
type file struct{ data, link string }

// files are those of a folder, by their paths in it, with slashes.
type files map[string]file

// hash is a number for what the files are.
func (f files) hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		fmt.Fprintf(h, "%q %q %q\n", name, f[name].link, f[name].data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:16])
}

// keep is a folder in the user's cache with these files and no others; kind is the beginning of
// its name.
func keep(kind string, f files) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: XDG_CACHE_HOME=FOLDER says where files can be kept", err)
	}
	place := filepath.Join(cache, "goroce", "run")
	root, place, err := openPlace(place)
	if err != nil {
		return "", err
	}
	defer root.Close()
	all, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer all.Close()
	unix.Flock(int(all.Fd()), unix.LOCK_SH) // nobody sweeps meanwhile, nor ever without locks
	name := kind + "-" + f.hash()
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		if err := write(root, name, f); err != nil {
			return "", err
		}
	}
	if err := compare(root, name, f); err != nil {
		return "", fmt.Errorf("%s is not what was written there: %w; remove it (rm -r)",
			filepath.Join(place, name), err)
	}
	if err := use(root, name); err != nil {
		return "", err
	}
	if unix.Flock(int(all.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		sweep(root, time.Now().Add(-month))
	}
	return filepath.Join(place, name), nil
}

// openPlace opens the folder of all that is kept, which must be the user's alone, and no link, and
// says by which path without links it is there.
func openPlace(place string) (*os.Root, string, error) {
	if err := os.MkdirAll(place, 0o700); err != nil {
		return nil, "", err
	}
	if info, err := os.Lstat(place); err != nil || !info.IsDir() {
		return nil, "", cmp.Or(err, fmt.Errorf("%s is a link or a file, and must be a folder", place))
	}
	place, err := filepath.EvalSymlinks(place)
	if err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(place)
	if err != nil {
		return nil, "", err
	}
	if err = own(root, "."); err == nil {
		err = safe(place, os.Geteuid())
	}
	if err != nil {
		root.Close()
		return nil, "", fmt.Errorf("%s: %w; XDG_CACHE_HOME=FOLDER says where else files can be kept", place, err)
	}
	return root, place, nil
}

// safe says whether only root and some users can change what is found at a folder's path, which has
// no links: each folder on it is of one of them, and others cannot write there, but above it in one
// like /tmp, where they cannot touch what is not theirs. As groups are often of one user, theirs
// may write. In the namespace of a user root may have no number: it is who has the root of the
// tree.
func safe(folder string, users ...int) error {
	info, err := os.Stat("/")
	if err != nil {
		return err
	}
	users = append(users, 0, int(info.Sys().(*syscall.Stat_t).Uid))
	for at, above := folder, false; ; at, above = filepath.Dir(at), true {
		info, err := os.Lstat(at)
		switch {
		case err != nil:
			return err
		case !slices.Contains(users, int(info.Sys().(*syscall.Stat_t).Uid)):
			return fmt.Errorf("%s is of user %d, who could replace it", at, info.Sys().(*syscall.Stat_t).Uid)
		case info.Mode()&0o002 != 0 && !(above && info.Mode()&fs.ModeSticky != 0):
			return fmt.Errorf("everybody may write in %s, and could replace it", at)
		case at == filepath.Dir(at):
			return nil
		}
	}
}

// own says whether a file or folder is this user's, and others can neither read nor write it.
func own(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if at := info.Sys().(*syscall.Stat_t); int(at.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is of user %d, and you are %d", name, at.Uid, os.Geteuid())
	}
	if open := info.Mode().Perm() & 0o077; open != 0 && info.Mode()&fs.ModeSymlink == 0 {
		return fmt.Errorf("%s is open to others (mode %04o, want %04o)", name,
			info.Mode().Perm(), info.Mode().Perm()&^0o077)
	}
	return nil
}

// compare holds a folder against the files that it should have.
func compare(root *os.Root, name string, f files) error {
	found := files{}
	err := fs.WalkDir(root.FS(), name, func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			err = own(root, at)
		}
		if err != nil || d.IsDir() {
			return err
		}
		short := at[len(name)+1:]
		switch d.Type() {
		case fs.ModeSymlink:
			link, err := root.Readlink(at)
			found[short] = file{link: link}
			return err
		case 0:
			data, err := root.ReadFile(at)
			found[short] = file{data: string(data)}
			return err
		}
		return fmt.Errorf("%s is neither a file nor a link", at)
	})
	if err == nil && !maps.Equal(found, f) {
		err = errors.New("its files are others")
	}
	return err
}

// write makes the folder under another name and renames it. Another process may be quicker, with
// the same files.
func write(root *os.Root, name string, f files) error {
	fresh := "new-" + rand.Text()
	if err := root.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	defer root.RemoveAll(fresh) // what is left of it
	for short, file := range f {
		at := path.Join(fresh, short)
		if err := root.MkdirAll(path.Dir(at), 0o700); err != nil {
			return err
		}
		if file.link != "" {
			if err := root.Symlink(file.link, at); err != nil {
				return err
			}
			continue
		}
		if err := create(root, at, file.data); err != nil {
			return err
		}
	}
	err := root.Rename(fresh, name)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return err
}

// create writes a file that is not there yet.
func create(root *os.Root, name, data string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, data)
	return errors.Join(err, f.Close())
}

// use says that a folder is used, now and until the program ends that follows this one.
func use(root *os.Root, name string) error {
	if err := root.Chtimes(name, time.Now(), time.Now()); err != nil {
		return err
	}
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	unix.Flock(int(f.Fd()), unix.LOCK_SH)
	_, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200) // left open, as reservations are
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EMFILE) {
		return nil // it goes on without
	}
	return err
}

// month is how long a folder stays that nobody uses.
const month = 30 * 24 * time.Hour

// sweep removes what was not used since then, and is not used now. What cannot be removed stays.
func sweep(root *os.Root, since time.Time) {
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() || info.ModTime().After(since) {
			continue
		}
		if f, err := root.Open(e.Name()); err == nil {
			if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
				root.RemoveAll(e.Name())
			}
			f.Close()
		}
	}
}
