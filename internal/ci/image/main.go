// Command image makes an OCI image of tarballs of "make tarball", one for each processor, with
// neither a daemon nor root:
//
//	image -o FOLDER -name NAME [-base ROOT.tar] TARBALL...
//
// FOLDER becomes an OCI image layout. Without a base the image has the command alone; with one, the
// root of a system, all that the tarball has, and it starts programs by "roce run". It is a module
// of its own, so that nobody who uses goroce downloads what it is made with. What it makes depends
// on its arguments alone: times are those of the tarball.
//
// Stages: a layer of what is in a tarball; an image of it; the layout of all images.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// prefix is where the tarball's folder is in an image.
const prefix = "opt/goroce"

// command is the one file of an image without a base.
const command = "bin/roce"

func main() {
	out := flag.String("o", "", "the `folder` of the layout, which must not be there")
	name := flag.String("name", "latest", "what the image is called in it")
	base := flag.String("base", "", "the root of a system, a tar `file`")
	flag.Parse()
	if err := run(*out, *name, *base, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(out, name, base string, tarballs []string) error {
	if out == "" || len(tarballs) == 0 {
		return errors.New("want -o FOLDER TARBALL...")
	}
	if _, err := os.Stat(out); err == nil {
		return fmt.Errorf("%s is there already", out)
	}
	l, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	called := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": name})
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range tarballs {
		img, arch, err := image(t, base)
		if err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
		if len(tarballs) == 1 { // not every program looks into an index for its only image
			return l.AppendImage(img, called)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	return l.AppendIndex(index, called)
}

// image makes one of a tarball, and says for which processor.
func image(from, base string) (v1.Image, string, error) {
	arch := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(from), "roce-linux-"), ".tar.gz")
	files, made, err := layer(from, base != "")
	if err != nil {
		return nil, "", err
	}
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	config := &v1.ConfigFile{OS: "linux", Architecture: arch, Created: v1.Time{Time: made}, Config: v1.Config{
		User:       "65534:65534",
		Env:        []string{"PATH=/" + prefix + "/bin:/usr/local/bin:/usr/bin:/bin", "XDG_CACHE_HOME=/tmp/cache"},
		WorkingDir: "/tmp",
		Entrypoint: []string{"/" + prefix + "/" + command},
		Labels: map[string]string{
			"org.opencontainers.image.source":      "https://github.com/goroce/goroce",
			"org.opencontainers.image.description": "RDMA without an RDMA NIC: RoCEv2 in user space",
		},
	}}
	var layers []mutate.Addendum
	add := func(l v1.Layer, what string) {
		layers = append(layers, mutate.Addendum{Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: made}, CreatedBy: what}})
	}
	if base != "" {
		root, err := tarball.LayerFromFile(base, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", base, err)
		}
		add(root, "mmdebstrap")
		config.Config.Entrypoint = append(config.Config.Entrypoint, "run", "--")
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, "", err
	}
	add(files, "make images")
	img, err = mutate.Append(img, layers...)
	return img, arch, err
}

// layer has the files of a tarball, or the command alone, below prefix; and a folder for what is
// temporary. It says when the tarball was made.
func layer(from string, all bool) (v1.Layer, time.Time, error) {
	file, err := os.Open(from)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, time.Time{}, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var made time.Time
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, made, err
		}
		if made.IsZero() {
			made = h.ModTime
			for _, folder := range []tar.Header{{Name: "opt/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777}} {
				folder.Typeflag, folder.ModTime = tar.TypeDir, made
				if err := w.WriteHeader(&folder); err != nil {
					return nil, made, err
				}
			}
		}
		_, name, _ := strings.Cut(strings.TrimSuffix(h.Name, "/"), "/")
		if !all && name != "" && name != path.Dir(command) && name != command {
			continue
		}
		h.Name = path.Join(prefix, name)
		if err := w.WriteHeader(h); err != nil {
			return nil, made, err
		}
		if _, err := io.Copy(w, r); err != nil {
			return nil, made, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, made, err
	}
	opens := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	l, err := tarball.LayerFromOpener(opens, tarball.WithMediaType(types.OCILayer))
	return l, made, err
}
