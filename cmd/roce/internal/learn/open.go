package learn

// The page of the lessons in a browser. Stages: the page is written to where it stays, so that what
// a browser keeps for it (answers, progress) is found again; a browser is asked to open it, if
// there is one; its address is printed in any case.

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/goroce/goroce/trace/learn"
	"github.com/goroce/goroce/trace/page"
)

// Open opens the page of all lessons in a browser, at one of them if name is not "".
func Open(out io.Writer, name string) error {
	if name != "" && learn.Find(name) == nil {
		return unknown(name)
	}
	var b bytes.Buffer
	if err := page.Write(&b, nil); err != nil {
		return err
	}
	file, err := keep(b.Bytes())
	if err != nil {
		return err
	}
	address := (&url.URL{Scheme: "file", Path: slashed(file)}).String()
	if name != "" {
		address += "#lesson=" + name
	}
	if err := browse(address); err != nil {
		fmt.Fprintf(out, "No browser could be opened here: %v.\nOpen this in one, or copy the file to a machine "+
			"that has one:\n", err)
	} else {
		fmt.Fprintln(out, "Your browser opens the lessons. If it does not:")
	}
	_, err = fmt.Fprintf(out, "  %s\nIn the terminal: roce learn %s\n", address, begin(name))
	return err
}

func begin(name string) string {
	if name == "" {
		return learn.All()[0].Name
	}
	return name
}

// keep writes the page to the folder that the system has for such files.
func keep(text []byte) (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "roce")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(folder, "lessons.html")
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, text) {
		return file, nil
	}
	return file, os.WriteFile(file, text, 0o600)
}

// slashed is a file's name as URLs have it: C:\x is /C:/x.
func slashed(file string) string {
	if file = filepath.ToSlash(file); !strings.HasPrefix(file, "/") {
		file = "/" + file
	}
	return file
}

// browse asks the system to open a URL, and does not wait until the reader closes it.
func browse(address string) error {
	line := map[string][]string{"darwin": {"open"}, "windows": {"rundll32",
		"url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if line == nil {
		line = []string{"xdg-open"}
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display (neither DISPLAY nor WAYLAND_DISPLAY is set)")
		}
	}
	c := exec.Command(line[0], append(line[1:], address)...)
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait() }() // as long as we live
	return nil
}
