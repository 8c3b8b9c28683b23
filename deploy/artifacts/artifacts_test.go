package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

// programs returns files that stand in for the binaries of all platforms.
func programs(t *testing.T) (list []binary) {
	t.Helper()
	t.Chdir("../..")
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			path := filepath.Join(t.TempDir(), "toolyard")
			if err := os.WriteFile(path, []byte(system+arch), 0o600); err != nil {
				t.Fatal(err)
			}
			list = append(list, binary{path: path, system: system, arch: arch, build: &debug.BuildInfo{}})
		}
	}
	return list
}

func TestNPMPackagesOfAllPlatforms(t *testing.T) {
	binaries, out := programs(t), t.TempDir()
	if err := writeNPM("1.2.3", out, binaries); err != nil {
		t.Fatal(err)
	}
	read := func(folder string) (p npmPackage) {
		text, err := os.ReadFile(filepath.Join(out, folder, "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	platforms := []string{"linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64", "win32-arm64"}
	want := map[string]string{}
	for _, p := range platforms {
		want["@toolyard/"+p] = "1.2.3"
	}
	if diff := cmp.Diff(want, read("toolyard").Dependencies); diff != "" {
		t.Error(diff)
	}
	got := read("win32-x64")
	if diff := cmp.Diff([]string{"@toolyard/win32-x64", "win32", "x64"}, []string{got.Name, got.OS[0], got.CPU[0]}); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(out, "darwin-arm64", "bin", "toolyard"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Error(info, err)
	}
	if _, err := os.Stat(filepath.Join(out, "win32-arm64", "bin", "toolyard.exe")); err != nil {
		t.Error(err)
	}
}

// The same inputs produce the same image, on any machine and at any time.
func TestImageIsReproducible(t *testing.T) {
	if _, err := buildinfo.Licenses(); err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat(certificates); err != nil {
		t.Skip(err)
	}
	binaries, out := programs(t), t.TempDir()
	var images [2][]byte
	for i := range images {
		name := filepath.Join(out, "image.tar")
		if err := writeImage("1.2.3", name, binaries); err != nil {
			t.Fatal(err)
		}
		var err error
		if images[i], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of the same binaries differ")
	}
	if err := writeImage("1.2.3", filepath.Join(out, "none.tar"), binaries[2:]); err == nil {
		t.Error("an image without a binary for Linux was written")
	}
}

func TestManifestNamesTheProgram(t *testing.T) {
	for _, b := range []binary{{system: "darwin", arch: "arm64"}, {system: "windows", arch: "amd64"}} {
		server, _ := manifest("1.2.3", b)["server"].(object)
		if server["entry_point"] != "server/"+b.name() {
			t.Errorf("%s: %v", b.system, server)
		}
	}
}

func TestPURL(t *testing.T) {
	for _, test := range [][4]string{
		{"golang", "github.com/goccy/go-yaml", "v1.19.2", "pkg:golang/github.com/goccy/go-yaml@v1.19.2"},
		{"golang", "github.com/x/y", "v2.1.4+incompatible", "pkg:golang/github.com/x/y@v2.1.4%2Bincompatible"},
		{"npm", "@base-ui/react", "1.9.0", "pkg:npm/%40base-ui/react@1.9.0"},
	} {
		if got := purl(test[0], test[1], test[2]); got != test[3] {
			t.Errorf("got %s, want %s", got, test[3])
		}
	}
}
