// Command manifests holds files for Kubernetes against the rules of those who read them:
//
//	manifests FILE...
//
// Manifests (YAML) have no field that the API does not have, and CDI files (JSON) are as the
// runtimes' own reader wants them. It is a module of its own, so that nobody who uses goroce
// downloads the API.
//
// Stages: each file by its kind; the documents of a manifest.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

func main() {
	failed := false
	for _, name := range os.Args[1:] {
		check := manifest
		if filepath.Ext(name) == ".json" {
			check = device
		}
		if err := check(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// device reads a CDI file.
func device(name string) error {
	_, err := cdi.ReadSpec(name, 0)
	return err
}

// kinds are the objects that manifests may have.
var kinds = map[string]func() any{
	"apps/v1 DaemonSet": func() any { return new(apps.DaemonSet) },
	"v1 Pod":            func() any { return new(core.Pod) },
	"v1 Service":        func() any { return new(core.Service) },
}

// manifest reads the documents of a file.
func manifest(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var all []error
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var is struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal(document, &is); err != nil {
			return err
		}
		object := kinds[is.APIVersion+" "+is.Kind]
		if object == nil {
			all = append(all, fmt.Errorf("%q of %q is not among the kinds that are known here", is.Kind, is.APIVersion))
			continue
		}
		all = append(all, yaml.UnmarshalStrict(document, object()))
	}
	return errors.Join(all...)
}
