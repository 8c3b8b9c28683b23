package pgtest

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
)

var (
	errNoPrograms = errors.New("pgtest: PostgreSQL not found: install postgresql, or set TOOLYARD_TEST_POSTGRES to the URL of a server")
	errNotOurs    = errors.New("pgtest: cannot stop the server in TOOLYARD_TEST_POSTGRES: use Start")
)

// findPrograms returns the folder that contains the PostgreSQL programs: that of initdb in PATH, or
// Debian's default location.
func findPrograms() (string, error) {
	var found []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, path)
		}
	}
	more, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	for _, path := range append(found, more...) {
		dir := filepath.Dir(path)
		if _, err := exec.LookPath(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	return "", errNoPrograms
}

// program is a running program.
type program struct {
	*exec.Cmd //nolint:forbidigo // PostgreSQL's programs are trusted
}

// command returns a program that runs as a user that PostgreSQL accepts, in its own process group,
// so that interrupting the test does not interrupt it.
func command(ctx context.Context, name string, args ...string) *program {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:forbidigo,gosec // as above
	cmd.SysProcAttr = attributes()
	return &program{cmd}
}
