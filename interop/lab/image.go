package lab

// The guest's image and its cache. Stages: look for an image of this recipe, else take the lock,
// build in a temporary folder (download, unpack, select, write) and rename it into place: an
// interrupted build never looks like an image.
//
// An image lies in <user cache>/goroce/rxelab/<hash of the recipe>-<hash of the package versions>.

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// An Image is a built guest image: a kernel and the archives of its initramfs.
type Image struct {
	Dir      string // folder in the cache
	Manifest Manifest
}

// A Manifest says what an image was made of. It is the file manifest.json beside the image.
type Manifest struct {
	Recipe       string           // hash of the tables it was built from
	Kernel       string           // file names of the kernel's packages
	Packages     []string         // file names of all other packages that were unpacked
	Modules      []string         // modules in loading order, as paths in the guest
	Sizes        map[string]int64 // bytes of each file of the image
	BuildSeconds float64
}

// Size returns the size of the image in bytes.
func (im *Image) Size() (total int64) {
	for _, n := range im.Manifest.Sizes {
		total += n
	}
	return total
}

func (im *Image) file(name string) string { return filepath.Join(im.Dir, name) }

const (
	kernelFile   = "vmlinuz"
	manifestFile = "manifest.json"
)

// ImageOptions choose and build an image.
type ImageOptions struct {
	Kernel  string    // Config.Kernel
	Suite   string    // Config.Suite
	Refresh bool      // resolve the packages again and build anew even if an image is there
	Log     io.Writer // progress; nil: none
}

// CacheDir returns the folder that holds the images.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where to keep the guest image: %w", err)
	}
	return filepath.Join(base, "goroce", "rxelab"), nil
}

// CleanImages removes all images and whatever interrupted builds left.
func CleanImages(ctx context.Context) error {
	dir, err := CacheDir()
	if err != nil {
		return err
	}
	unlock, err := lockCache(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	return os.RemoveAll(dir)
}

// EnsureImage returns the image of the recipe, and builds it first if the cache has none.
func EnsureImage(ctx context.Context, opt ImageOptions) (*Image, error) {
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	recipe := recipeHash(opt)
	if im := cachedImage(dir, recipe); im != nil && !opt.Refresh {
		return im, nil
	}
	unlock, err := lockCache(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	removeStale(dir)
	if im := cachedImage(dir, recipe); im != nil && !opt.Refresh {
		return im, nil // another process built it while this one waited for the lock
	}
	im, err := buildImage(ctx, dir, recipe, opt)
	if err != nil {
		return nil, fmt.Errorf("build the guest image: %w", err)
	}
	return im, nil
}

func recipeHash(opt ImageOptions) string {
	release, _ := os.ReadFile("/etc/os-release") // another release of the host has other packages
	sources := os.Getenv("APT_CONFIG")           // and so may apt sources given this way
	tables, _ := json.Marshal([]any{recipeVersion, archives, modules, opt.series(), opt.Suite,
		string(release), sources})
	return shortHash(tables)
}

func (opt ImageOptions) series() []string {
	if opt.Kernel != "" {
		return strings.Split(opt.Kernel, ",")
	}
	return kernelSeries
}

func shortHash(data []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(data))[:12]
}

// cachedImage returns the newest whole image of a recipe, or nil.
func cachedImage(dir, recipe string) *Image {
	paths, _ := filepath.Glob(filepath.Join(dir, recipe+"-*", manifestFile))
	var newest *Image
	var when time.Time
	for _, path := range paths {
		im := &Image{Dir: filepath.Dir(path)}
		info, err := os.Stat(path)
		if err != nil || !info.ModTime().After(when) {
			continue
		}
		if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &im.Manifest) == nil && im.whole() {
			newest, when = im, info.ModTime()
		}
	}
	return newest
}

func (im *Image) whole() bool {
	for name, size := range im.Manifest.Sizes {
		if info, err := os.Stat(im.file(name)); err != nil || info.Size() != size {
			return false
		}
	}
	return len(im.Manifest.Sizes) > 0
}

const buildPrefix = "build-"

// removeStale removes what interrupted builds left; the lock is held.
func removeStale(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, buildPrefix+"*"))
	for _, path := range left {
		os.RemoveAll(path)
	}
}

func buildImage(ctx context.Context, dir, recipe string, opt ImageOptions) (*Image, error) {
	began := time.Now()
	say := func(format string, args ...any) {
		if opt.Log != nil {
			fmt.Fprintf(opt.Log, "rxelab: "+format+"\n", args...)
		}
	}
	temp, err := os.MkdirTemp(dir, buildPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	im := &Image{Dir: filepath.Join(temp, "image"), Manifest: Manifest{Recipe: recipe, Sizes: map[string]int64{}}}
	if err := os.Mkdir(im.Dir, 0o755); err != nil {
		return nil, err
	}
	say("building the guest image: downloading packages")
	a, err := newApt(temp)
	if err != nil {
		return nil, err
	}
	if opt.Suite != "" {
		if err := a.addSuite(ctx, opt.Suite); err != nil {
			return nil, err
		}
	}
	var packages []string
	for _, ar := range archives {
		packages = append(packages, ar.Packages...)
	}
	kernel, debs, err := a.fetch(ctx, opt.series(), packages)
	if err != nil {
		return nil, err
	}
	say("unpacking the kernel, %s, and %d packages", filepath.Base(kernel[0]), len(debs))
	if err := im.addKernel(ctx, kernel); err != nil {
		return nil, err
	}
	if err := im.addArchives(ctx, debs); err != nil {
		return nil, err
	}
	im.Manifest.BuildSeconds = time.Since(began).Seconds()
	if err := im.finish(filepath.Join(dir, recipe+"-"+im.versionHash())); err != nil {
		return nil, err
	}
	say("built in %.1f s: %d MB", im.Manifest.BuildSeconds, im.Size()>>20)
	return im, nil
}

func (im *Image) versionHash() string {
	return shortHash([]byte(im.Manifest.Kernel + " " + strings.Join(im.Manifest.Packages, " ")))
}

// finish writes the manifest and renames the image into place.
func (im *Image) finish(place string) error {
	data, err := json.MarshalIndent(im.Manifest, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(im.file(manifestFile), data, 0o644); err != nil {
		return err
	}
	// One is there after a refresh that found the same versions, or if it is damaged.
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	if err := os.Rename(im.Dir, place); err != nil {
		return err
	}
	im.Dir = place
	return nil
}

// modulesFile is the archive of kernel modules.
const modulesFile = "modules.cpio"

// addKernel takes the kernel and the modules out of the kernel's packages.
func (im *Image) addKernel(ctx context.Context, debs []string) error {
	files := tree{}
	for _, deb := range debs {
		im.Manifest.Kernel = strings.TrimSpace(im.Manifest.Kernel + " " + filepath.Base(deb))
		err := files.unpack(ctx, deb, func(name string) bool {
			return strings.HasPrefix(name, "boot/vmlinuz") || strings.HasPrefix(name, "usr/lib/modules/")
		})
		if err != nil {
			return err
		}
	}
	for name, n := range files {
		if strings.HasPrefix(path.Base(name), "vmlinuz") {
			if err := im.writeFile(kernelFile, func(w io.Writer) error {
				_, err := w.Write(n.data)
				return err
			}); err != nil {
				return err
			}
		}
	}
	if im.Manifest.Sizes[kernelFile] == 0 {
		return fmt.Errorf("no vmlinuz* in %s", im.Manifest.Kernel)
	}
	set := newModuleSet(files)
	for _, m := range modules {
		if err := set.add(ctx, m); err != nil {
			return err
		}
	}
	im.Manifest.Modules = set.order
	all := newSelection(set.out, nil)
	for name := range set.out {
		all.taken[name] = true
	}
	return im.writeFile(modulesFile, func(w io.Writer) error {
		c := newCPIO(w)
		all.write(c)
		return c.close()
	})
}

// addArchives writes one cpio archive for each row of the recipe; files that an earlier archive has
// are not repeated.
func (im *Image) addArchives(ctx context.Context, debs []string) error {
	files := tree{}
	for _, deb := range debs {
		im.Manifest.Packages = append(im.Manifest.Packages, filepath.Base(deb))
		err := files.unpack(ctx, deb, func(name string) bool {
			return !strings.HasPrefix(name, "usr/share/doc/") && !strings.HasPrefix(name, "usr/share/man/") &&
				!strings.HasPrefix(name, "usr/share/locale/")
		})
		if err != nil {
			return err
		}
	}
	below := map[string]bool{}
	for _, ar := range archives {
		chosen := newSelection(files, below)
		if err := chosen.takeAll(ar); err != nil {
			return fmt.Errorf("archive %s: %w", ar.Name, err)
		}
		err := im.writeFile(ar.Name, func(w io.Writer) error {
			c := newCPIO(w)
			chosen.write(c)
			return c.close()
		})
		if err != nil {
			return err
		}
		for name := range chosen.taken {
			below[name] = true
		}
	}
	return nil
}

func (im *Image) writeFile(name string, fill func(io.Writer) error) error {
	f, err := os.Create(im.file(name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := fill(f); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	im.Manifest.Sizes[name] = info.Size()
	return f.Close()
}
