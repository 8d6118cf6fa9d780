package lab

// Kernel modules: which files, and in which order. The .deb carries no modules.dep (depmod writes
// it at installation), so the order comes from the modules themselves: section .modinfo lists
// "depends=". Modules are stored uncompressed.

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// moduleSet finds modules by name in the tree of the kernel's package.
type moduleSet struct {
	from    tree
	files   map[string]string // module name to path
	builtin map[string]bool
	done    map[string]bool
	order   []string // paths under "/", in loading order
	out     tree     // the uncompressed modules
}

// moduleName gives the name of a module's file: crc32-pclmul.ko.xz is module crc32_pclmul.
func moduleName(file string) string {
	base, _, _ := strings.Cut(path.Base(file), ".ko")
	return strings.ReplaceAll(base, "-", "_")
}

func newModuleSet(from tree) *moduleSet {
	m := &moduleSet{
		from:    from,
		files:   map[string]string{},
		builtin: map[string]bool{},
		done:    map[string]bool{},
		out:     tree{},
	}
	for name, n := range from {
		switch {
		case path.Base(name) == "modules.builtin":
			for _, line := range strings.Fields(string(n.data)) {
				m.builtin[moduleName(line)] = true
			}
		case strings.Contains(path.Base(name), ".ko"):
			m.files[moduleName(name)] = name
		}
	}
	return m
}

// add puts a module and what it depends on at the end of the loading order.
func (m *moduleSet) add(ctx context.Context, want module) error {
	if m.done[want.Name] || m.builtin[want.Name] {
		return nil
	}
	file, ok := m.files[want.Name]
	if !ok && want.Optional {
		return nil
	}
	if !ok {
		return fmt.Errorf("this kernel has no module %s (%d modules seen)", want.Name, len(m.files))
	}
	m.done[want.Name] = true
	data, err := decompress(ctx, file, m.from[file].data)
	if err != nil {
		return err
	}
	depends, err := moduleDepends(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range depends {
		if err := m.add(ctx, module{Name: name}); err != nil {
			return fmt.Errorf("for %s: %w", want.Name, err)
		}
	}
	plain := "usr/lib/modules/" + want.Name + ".ko"
	m.out[plain] = node{mode: modeRegular | 0o644, data: data}
	m.order = append(m.order, "/"+plain)
	return nil
}

// decompressors by the end of a module's name.
var decompressors = map[string][]string{
	".xz":  {"xz", "-dc"},
	".zst": {"zstd", "-dc"},
}

func decompress(ctx context.Context, name string, data []byte) ([]byte, error) {
	argv, ok := decompressors[path.Ext(name)]
	if !ok {
		return data, nil
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("decompress %s with %s: %w", name, argv[0], err)
	}
	return out, nil
}

func moduleDepends(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no section .modinfo: not a kernel module")
	}
	info, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(info), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok && list != "" {
			return strings.Split(strings.ReplaceAll(list, "-", "_"), ","), nil
		}
	}
	return nil, nil
}
