package acceptance

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A snapshot release has an archive, an SBOM and a bundle for every platform, packages for Linux, a
// checksum for each file, and package-manager manifests with the same checksums.
func TestReleaseIsComplete(t *testing.T) {
	t.Parallel()
	if *dist == "" {
		t.Skip("goreleaser builds the release; run \"make snapshot\", and the tests with -dist")
	}
	var about struct{ Version string }
	if err := json.Unmarshal([]byte(readText(t, filepath.Join(*dist, "metadata.json"))), &about); err != nil {
		t.Fatal(err)
	}
	sums := checksums(t)
	var want []string
	for _, system := range []string{"linux", "darwin", "windows"} {
		program, ending, extra := "toolyard", ".tar.gz", []string(nil)
		switch system {
		case "windows":
			program, ending = "toolyard.exe", ".zip"
		case "linux":
			extra = []string{".deb", ".rpm"}
		}
		for _, processor := range []string{"amd64", "arm64"} {
			name := "toolyard_" + about.Version + "_" + system + "_" + processor
			for _, ending := range append([]string{ending, ".cdx.json", ".mcpb"}, extra...) {
				want = append(want, name+ending)
			}
			got := filesInArchive(t, filepath.Join(*dist, name+ending))
			if diff := cmp.Diff([]string{"CHANGELOG.md", "LICENSE", "README.md", "licenses.txt", program}, got); diff != "" {
				t.Errorf("%s (-want +got): %s", name+ending, diff)
			}
			for manager, systems := range map[string]string{"homebrew": "darwin linux", "scoop": "windows", "winget": "windows"} {
				if strings.Contains(systems, system) && !strings.Contains(manifests(t, manager), sums[name+ending]) {
					t.Errorf("the manifest for %s lacks the checksum of %s", manager, name+ending)
				}
			}
		}
	}
	var listed []string
	for name := range sums {
		listed = append(listed, name)
	}
	slices.Sort(want)
	slices.Sort(listed)
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("checksums.txt (-want +got): %s", diff)
	}
}

// checksums verifies the release's checksums and returns them by file name.
func checksums(t *testing.T) map[string]string {
	t.Helper()
	sums := make(map[string]string)
	for line := range strings.Lines(readText(t, filepath.Join(*dist, "checksums.txt"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
		data, err := os.ReadFile(filepath.Join(*dist, name))
		if errors.Is(err, fs.ErrNotExist) {
			data, err = os.ReadFile(filepath.Join(*dist, "mcpb", name))
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
			t.Errorf("the checksum of %s is wrong", name)
		}
	}
	return sums
}

// filesInArchive returns the sorted names of the files in a .tar.gz or .zip archive.
func filesInArchive(t *testing.T, name string) (files []string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".zip") {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			files = append(files, f.Name)
		}
	} else {
		unzipped, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		for r := tar.NewReader(unzipped); ; {
			f, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f.Name)
		}
	}
	slices.Sort(files)
	return files
}

// manifests returns the contents of a package manager's files.
func manifests(t *testing.T, manager string) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(filepath.Join(*dist, manager), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text.WriteString(readText(t, path))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return text.String()
}
