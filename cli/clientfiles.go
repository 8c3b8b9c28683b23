package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// clientEnv is the environment in which clients' configuration files are located.
type clientEnv struct {
	home, folder, goos string
	executable         string
	getenv             clientconfig.Getenv
}

func (a *app) clientEnv() (clientEnv, error) {
	s := clientEnv{goos: runtime.GOOS, getenv: a.opts.Process.Getenv}
	s.home = cmp.Or(a.getenv("HOME"), a.getenv("USERPROFILE"))
	if !filepath.IsAbs(s.home) {
		return s, errors.New("HOME is not set; set it to your home directory")
	}
	var err error
	if s.folder, err = os.Getwd(); err != nil {
		return s, err
	}
	s.executable, err = os.Executable()
	return s, err
}

func (e clientEnv) paths(c *clientconfig.Client) []string {
	return c.Paths(e.home, e.folder, e.goos, e.getenv)
}

// file returns the client's configuration file for the project or for the user.
func (e clientEnv) file(c *clientconfig.Client, project bool) (string, error) {
	paths := e.paths(c)
	switch {
	case !project:
		return paths[len(paths)-1], nil
	case c.Project == "":
		return "", fmt.Errorf("%s has no project file; omit --project", c.Name)
	}
	return paths[0], e.checkInside(paths[0])
}

// checkInside rejects a project file that is a symbolic link to a target outside the project.
func (e clientEnv) checkInside(file string) error {
	folder, err := filepath.EvalSymlinks(e.folder)
	if err != nil {
		return err
	}
	for path := file; path != e.folder && path != filepath.Dir(path); path = filepath.Dir(path) {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s is a broken symbolic link", path)
			}
			continue
		}
		if err != nil {
			return err
		}
		if inside, err := filepath.Rel(folder, real); err != nil || !filepath.IsLocal(inside) {
			return fmt.Errorf("%s is a symbolic link that points outside the project", path)
		}
		return nil
	}
	return nil
}

// backupNote mentions the backup of a replaced file.
func backupNote(file string, before []byte) string {
	if before == nil {
		return ""
	}
	return " (backup: " + filepath.Base(file) + backupSuffix + ")"
}

// readFile reads a regular file of limited size.
func readFile(path string) ([]byte, error) {
	data, err := safefile.Read(path, clientconfig.MaxFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

const backupSuffix = ".bak"

// replaceFile replaces a file atomically, keeps its mode, and writes a backup of the previous
// content. It follows a symbolic link.
func replaceFile(path string, before, after []byte, mode fs.FileMode) error {
	path = safefile.Target(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the mode that clients use
		return err
	}
	now, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, before) {
		return fmt.Errorf("%s changed while it was being edited; try again", path)
	}
	if err == nil {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
		if err := safefile.Write(path+backupSuffix, before, mode); err != nil {
			return err
		}
	}
	return safefile.Write(path, after, mode)
}

// maxDiffLine is the maximum number of characters to print per line.
const maxDiffLine = 1000

// printDiff prints only the lines that differ, with secrets masked. It omits other lines, because
// they may contain secrets too.
func printDiff(out io.Writer, file string, before, after []byte) {
	a, b := splitLines(before), splitLines(after)
	first := 0
	for first < min(len(a), len(b)) && a[first] == b[first] {
		first++
	}
	endA, endB := len(a), len(b)
	for endA > first && endB > first && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	file = untrusted.Printable(file)
	fmt.Fprintf(out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", file, file, lineRange(first, endA), lineRange(first, endB))
	for _, line := range a[first:endA] {
		fmt.Fprintln(out, "-"+untrusted.Printable(shorten(maskSecrets(line), maxDiffLine)))
	}
	for _, line := range b[first:endB] {
		fmt.Fprintln(out, "+"+untrusted.Printable(shorten(maskSecrets(line), maxDiffLine)))
	}
}

// secretMember matches a JSON or TOML member whose name suggests a secret.
var secretMember = regexp.MustCompile(`(?i)((?:"[^"]*(?:` + secretWords + `)[^"]*"|[\w-]*(?:` + secretWords + `)[\w-]*)\s*[:=]\s*)"[^"]*"`)

const secretWords = "token|secret|key|passw|auth|credential|cookie"

// maskSecrets replaces the values of members that may be secret.
func maskSecrets(line string) string { return secretMember.ReplaceAllString(line, `$1"…"`) }

// lineRange formats a range of lines for a diff. An empty range is written as the line before it.
func lineRange(first, end int) string {
	if first == end {
		return fmt.Sprintf("%d,0", first)
	}
	return fmt.Sprintf("%d,%d", first+1, end-first)
}

func splitLines(data []byte) (lines []string) {
	for line := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}
