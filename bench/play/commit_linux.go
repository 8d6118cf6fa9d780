package play

// Commits: their names, their files, and the programs that are built of them.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/goroce/goroce/bench/repertoire"
)

// git runs git in a folder and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		var said *exec.ExitError
		if errors.As(err, &said) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(said.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// describeCommit returns a commit's short hash and its subject.
func describeCommit(ctx context.Context, repo, commit string) (string, error) {
	return git(ctx, repo, "log", "-1", "--format=%h %s", "--end-of-options", commit, "--")
}

// describeTree says what the working tree is: the commit, and whether files differ from it.
func describeTree(ctx context.Context, repo string) (string, error) {
	commit, err := describeCommit(ctx, repo, "HEAD")
	if err != nil {
		return "", err
	}
	changes, err := git(ctx, repo, "status", "--porcelain")
	if err == nil && changes != "" {
		commit += ", with uncommitted changes"
	}
	return commit, err
}

// changedSources returns the Go files of a folder, tests aside, that differ between a commit and
// the working tree, with those that git does not know yet.
func changedSources(ctx context.Context, repo, commit, folder string) ([]string, error) {
	files := []string{"--", folder + "/*.go", ":(exclude)*_test.go"}
	changed, err := git(ctx, repo, append([]string{"diff", "--name-only", "--end-of-options", commit}, files...)...)
	if err != nil {
		return nil, err
	}
	added, err := git(ctx, repo, append([]string{"ls-files", "--others", "--exclude-standard"}, files...)...)
	return strings.Fields(changed + "\n" + added), err
}

// checkOut writes the files of a commit into a new folder. The repository does not learn of it, so
// that removing the folder leaves nothing behind.
func checkOut(ctx context.Context, repo, commit, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	packed := dir + ".tar"
	defer os.Remove(packed)
	if _, err := git(ctx, repo, "archive", "--format=tar", "--output="+packed, "--end-of-options", commit); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", packed, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w: %s", commit, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// build builds a program of the module whose source is in a folder: without cgo, so that it runs in
// the guest too, and the same to the byte wherever the source lies.
func build(ctx context.Context, source, program, path string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", path}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/goroce/goroce/"+program)...)
	cmd.Dir = source
	// A workspace would mix commits. What a killed build leaves behind goes with the program's
	// folder.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOTMPDIR="+filepath.Dir(path))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// The whole group is killed, compilers too.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build of %s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// buildMPI makes the libraries of dropin and the job of its tests in a folder.
func buildMPI(ctx context.Context, folder string) error {
	for _, line := range [][]string{{"make", "-s", "-C", "dropin", "B=" + folder},
		{"mpicc", "-O2", "-o", filepath.Join(folder, "mpi"), "dropin/testdata/mpi.c"}} {
		if out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("the job of MPI: %s: %w: %s", strings.Join(line, " "), err, repertoire.LastLine(out))
		}
	}
	return nil
}
