package acceptance

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

var dist = flag.String("dist", "", "folder of a snapshot release: test its artifacts instead of those made from the binary of the tests")

// artifact builds a release artifact from the test binary, or finds it in a snapshot release.
func artifact(t *testing.T, kind, pattern string) string {
	t.Helper()
	dir := *dist
	if dir == "" {
		dir = t.TempDir()
		command(t, "..", "go", "run", "./deploy/artifacts", kind, "0.0.1-test", filepath.Join(dir, strings.TrimSuffix(pattern, "/*")), filepath.Join(bin, "toolyard"))
	}
	found, err := filepath.Glob(filepath.Join(dir, strings.TrimSuffix(pattern, "/*")))
	if pattern == "mcpb/*" {
		found, err = filepath.Glob(filepath.Join(dir, "mcpb", "*_"+runtime.GOOS+"_"+runtime.GOARCH+".mcpb"))
	}
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", pattern, found, err)
	}
	return found[0]
}

// command runs a program that must succeed.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// greets calls a TypeScript tool.
func greets(t *testing.T, c client) {
	t.Helper()
	if r := call(t, c, "greet", `{"name":"Ada"}`).result(t); len(r.Content) != 1 || r.Content[0].Text != "Hello, Ada!" {
		t.Errorf("got %+v", r)
	}
}

// fromBin returns a path for functions that expect the name of one of the tests' programs.
func fromBin(t *testing.T, path string) string {
	t.Helper()
	name, err := filepath.Rel(bin, path)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// The package toolyard starts the program in the platform package that npm installed.
func TestNPMPackage(t *testing.T) {
	heavy(t)
	packages, dir := artifact(t, "npm", "npm/*"), t.TempDir()
	platform := filepath.Join(packages, map[string]string{"amd64": "linux-x64", "arm64": "linux-arm64"}[runtime.GOARCH])
	pack := func(folder string) string {
		name := strings.TrimSpace(command(t, folder, "npm", "pack", "--loglevel=error", "--pack-destination", dir))
		return filepath.Join(dir, name)
	}
	if *dist != "" {
		platform = pack(platform) // otherwise it is installed as a folder, because compressing the program takes a long time
	}
	save(t, filepath.Join(dir, "package.json"), "{}")
	command(t, dir, "npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", pack(filepath.Join(packages, "toolyard")), platform)

	launcher := filepath.Join(dir, "node_modules", ".bin", "toolyard")
	tools := folder(t, map[string]string{"toolyard.yaml": scriptConfig, "tools/greet.ts": helloScript})
	greets(t, newStdioIn(t, tools, nil, fromBin(t, launcher), true))
	if code, _, stderr := runIn(t, tools, nil, fromBin(t, launcher), "srve"); code != 2 || !strings.Contains(stderr, "unknown command") {
		t.Errorf("the launcher exits with %d: %s", code, stderr)
	}
	if err := os.RemoveAll(filepath.Join(dir, "node_modules", "@toolyard")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runIn(t, tools, nil, fromBin(t, launcher), "version"); code != 1 || !strings.Contains(stderr, "--omit=optional") {
		t.Errorf("without the platform package, the launcher exits with %d: %s", code, stderr)
	}
}

// A desktop client unpacks the bundle and runs the command in its manifest, with the file that the
// user selected.
func TestMCPBundle(t *testing.T) {
	heavy(t)
	dir := t.TempDir()
	archive, err := zip.OpenReader(artifact(t, "mcpb", "mcpb/*"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		writeTo(t, filepath.Join(dir, f.Name), f.Mode(), r)
		_ = r.Close()
	}
	var manifest struct {
		Server struct {
			Config struct {
				Command string
				Args    []string
			} `json:"mcp_config"`
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	tools := folder(t, map[string]string{"toolyard.yaml": scriptConfig, "tools/greet.ts": helloScript})
	values := strings.NewReplacer("${__dirname}", dir, "${user_config.config}", filepath.Join(tools, "toolyard.yaml"))
	args := manifest.Server.Config.Args
	for i := range args {
		args[i] = values.Replace(args[i])
	}
	if args[0] != "serve" {
		t.Fatalf("the bundle runs %v", args)
	}
	greets(t, newStdioIn(t, t.TempDir(), nil, fromBin(t, values.Replace(manifest.Server.Config.Command)), false, args[1:]...))
}

func writeTo(t *testing.T, name string, mode os.FileMode, r io.Reader) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The package contains the program, the service and its configuration.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	if *dist == "" {
		t.Skip("goreleaser builds the package; run \"make snapshot\", and the tests with -dist")
	}
	found, err := filepath.Glob(filepath.Join(*dist, "*_linux_"+runtime.GOARCH+".deb"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	root := t.TempDir()
	command(t, root, "dpkg-deb", "--extract", found[0], root)
	for _, name := range []string{"usr/lib/systemd/system/toolyard.service", "usr/lib/sysusers.d/toolyard.conf", "usr/share/doc/toolyard/copyright", "usr/share/doc/toolyard/licenses.txt"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if conffiles := command(t, root, "dpkg-deb", "--info", found[0], "conffiles"); strings.TrimSpace(conffiles) != "/etc/toolyard/toolyard.yaml" {
		t.Errorf("conffiles: %s", conffiles)
	}
	text, err := os.ReadFile(filepath.Join(root, "etc/toolyard/toolyard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{"toolyard.yaml": strings.ReplaceAll(string(text), "/var/lib/toolyard/", "")})
	if code, stdout, stderr := runIn(t, dir, nil, fromBin(t, filepath.Join(root, "usr/bin/toolyard")), "check"); code != 0 {
		t.Errorf("toolyard check: %d\n%s%s", code, stdout, stderr)
	}
}

// The SBOM covers Go modules and npm packages, each with a license.
func TestSBOM(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "sbom.json")
	command(t, "..", "go", "run", "./deploy/artifacts", "sbom", "v0.0.1-test", name, filepath.Join(bin, "toolyard"))
	var document struct {
		Components []struct {
			PURL     string
			Licenses []struct{ Expression string }
		}
	}
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	listed := ""
	for _, c := range document.Components {
		listed += c.PURL + "\n"
		if len(c.Licenses) != 1 {
			t.Errorf("%s has no license", c.PURL)
		}
	}
	for _, want := range []string{"pkg:golang/std@go1", "pkg:golang/github.com/evanw/esbuild@v", "pkg:npm/zod@", "pkg:npm/quickjs-wasi@", "pkg:npm/react@", "pkg:npm/%40base-ui/react@"} {
		if !strings.Contains(listed, want) {
			t.Errorf("%s is not listed", want)
		}
	}
	code, stdout, _ := run(t, "toolyard", "", "version", "--json")
	var info struct{ Components []struct{ Name string } }
	if err := json.Unmarshal([]byte(stdout), &info); err != nil || code != 0 || len(info.Components) != len(document.Components) {
		t.Errorf("exit %d, %v: %d components, not %d", code, err, len(info.Components), len(document.Components))
	}
	fmt.Fprintf(t.Output(), "%d components\n", len(document.Components))
}
