package play

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newRepository has one commit with the text "old" in a file, which says "new" by now. Without the
// programs that it needs the test skips; with GOROCE_REQUIRE_TOOLS, as in CI, it fails.
func newRepository(t *testing.T) (dir, file string) {
	t.Helper()
	for _, program := range []string{"git", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("GOROCE_REQUIRE_TOOLS") != "" {
				t.Fatalf("checking a commit out needs %s, and GOROCE_REQUIRE_TOOLS is set: %v", program, err)
			}
			t.Skipf("checking a commit out needs %s (GOROCE_REQUIRE_TOOLS=1 makes this a failure): %v", program, err)
		}
	}
	dir = t.TempDir()
	for name, value := range map[string]string{"GIT_DIR": filepath.Join(dir, ".git"), "GIT_CONFIG_GLOBAL": os.DevNull,
		"GIT_CONFIG_SYSTEM": os.DevNull, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
		"GIT_COMMITTER_EMAIL": "a@example.org"} {
		t.Setenv(name, value)
	}
	file = filepath.Join("folder", "file")
	write := func(text string) {
		if err := os.MkdirAll(filepath.Join(dir, "folder"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "the first"}, {"tag", "v1"}} {
		if _, err := git(t.Context(), dir, args...); err != nil {
			t.Fatal(err)
		}
	}
	write("new")
	return dir, file
}

func TestCheckOut(t *testing.T) {
	repo, file := newRepository(t)
	parent := t.TempDir()
	for _, commit := range []string{"HEAD", "v1"} {
		to := filepath.Join(parent, commit)
		if err := checkOut(t.Context(), repo, commit, to); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(to, file)); err != nil || string(text) != "old" {
			t.Errorf("%s: %q, %v; want the committed text", commit, text, err)
		}
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 2 {
		t.Errorf("beside the two folders: %v, %v", left, err)
	}
	if trees, err := git(t.Context(), repo, "worktree", "list"); err != nil || strings.Contains(trees, "\n") {
		t.Errorf("the repository knows of %q, %v", trees, err)
	}
}

func TestDescribe(t *testing.T) {
	repo, file := newRepository(t)
	commit, err := describeCommit(t.Context(), repo, "v1")
	if err != nil || !strings.HasSuffix(commit, " the first") {
		t.Errorf("the commit is %q, %v", commit, err)
	}
	tree, err := describeTree(t.Context(), repo)
	if err != nil || tree != commit+", with uncommitted changes" {
		t.Errorf("the changed tree is %q, %v", tree, err)
	}
	if err := os.WriteFile(filepath.Join(repo, file), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if tree, err = describeTree(t.Context(), repo); err != nil || tree != commit {
		t.Errorf("the restored tree is %q, %v", tree, err)
	}
}

// Results, tests and other folders are no rulers; sources are, even if git does not know them yet.
func TestChangedSources(t *testing.T) {
	repo, _ := newRepository(t)
	for _, name := range []string{"folder/new.go", "folder/new_test.go", "folder/below/new.go", "beside/new.go"} {
		if err := os.MkdirAll(filepath.Join(repo, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(repo, name), []byte("package p\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(commit string, want ...string) {
		t.Helper()
		got, err := changedSources(t.Context(), repo, commit, "folder")
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("since %s: %q, %v; want %q", commit, got, err, want)
		}
	}
	check("v1", "folder/below/new.go", "folder/new.go")
	for _, args := range [][]string{{"add", "."}, {"commit", "-q", "-m", "the second"}} {
		if _, err := git(t.Context(), repo, args...); err != nil {
			t.Fatal(err)
		}
	}
	check("v1", "folder/below/new.go", "folder/new.go")
	check("HEAD")
	if err := os.WriteFile(filepath.Join(repo, "folder/new.go"), []byte("package q\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("HEAD", "folder/new.go")
}

// What is no commit is an error that names it, whatever it looks like.
func TestNoCommit(t *testing.T) {
	repo, _ := newRepository(t)
	for _, commit := range []string{"absent", "--all", ""} {
		if what, err := describeCommit(t.Context(), repo, commit); err == nil {
			t.Errorf("%q is %q", commit, what)
		}
		if err := checkOut(t.Context(), repo, commit, filepath.Join(t.TempDir(), "to")); err == nil {
			t.Errorf("%q was checked out", commit)
		}
	}
}
