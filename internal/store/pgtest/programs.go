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

// findPrograms finds the folder with the programs of PostgreSQL: that of initdb in the PATH,
// or else where Debian puts them.
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

// program is a program that runs.
type program struct {
	*exec.Cmd //nolint:forbidigo // the programs of PostgreSQL are no strangers
}

// command is a program that runs as a user that PostgreSQL accepts, in a process group of
// its own, so that what interrupts the test does not interrupt it.
func command(ctx context.Context, name string, args ...string) *program {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:forbidigo,gosec // as above
	cmd.SysProcAttr = attributes()
	return &program{cmd}
}
