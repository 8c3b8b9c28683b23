package acceptance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// containerScript runs a program in an unpacked image as a container runtime does: with a read-only
// root, /tmp in memory, its own process namespace, the default seccomp profile, and an unprivileged
// user.
const containerScript = `
set -e
root=$1 work=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/tmp"
mount --bind "$work" "$root/toolyard"
mount -o remount,bind,ro "$root/toolyard"
mount -o remount,bind,ro "$root"
exec "$@"
`

// TestContainerImage unpacks the image and serves a TypeScript tool from it.
func TestContainerImage(t *testing.T) {
	heavy(t)
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("this system does not permit namespaces: %v\n%s", err, out)
	}
	root := t.TempDir()
	config := unpackImage(t, artifact(t, "image", "toolyard_image.tar"), root)
	addLibraries(t, root)

	work, address := folder(t, map[string]string{"toolyard.yaml": scriptConfig, "tools/greet.ts": helloScript}), freeAddress(t)
	for _, name := range []string{root, work, filepath.Join(work, "tools"), filepath.Join(work, "tools", "greet.ts"), filepath.Join(work, "toolyard.yaml")} {
		if err := os.Chmod(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, ".", "go", "build", "-o", root, "./defaultseccomp")
	user, group, _ := strings.Cut(config.User, ":")
	program := slices.Concat(config.Entrypoint, config.Cmd)
	i := slices.Index(program, "0.0.0.0:3001")
	if i < 0 {
		t.Fatalf("the image runs %v", program)
	}
	program[i] = address
	args := slices.Concat([]string{"-c", containerScript, "sh", root, work, "env", "-i"}, config.Env,
		[]string{"PATH=/usr/bin:/bin", "unshare", "--root=" + root, "--wd=" + config.WorkingDir, "--setuid=" + user, "--setgid=" + group, "/defaultseccomp"}, program)
	p := &process{t: t, dir: work, url: "http://" + address + "/mcp"}
	p.cmd = exec.Command("sh", args...)
	p.cmd.Stderr, p.cmd.SysProcAttr = p, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	p.await(p.url)

	greets(t, modernHTTP{t: t, url: p.url})
	if code, stdout, stderr := runIn(t, work, nil, "toolyard", "health", "--url", "http://"+address); code != 0 {
		t.Errorf("health check: %d\n%s%s", code, stdout, stderr)
	}
	users, filtered := containerProcesses(t, root)
	if config.User != "65532:65532" || len(users) != 1 || !users["65532"] {
		t.Errorf("the image declares user %s, and its processes have users %v", config.User, users)
	}
	if !filtered {
		t.Error("no worker has installed a system-call filter")
	}
}

// containerProcesses returns the users of the processes under a root, and reports whether one of
// them has installed a system-call filter.
func containerProcesses(t *testing.T, root string) (users map[string]bool, filtered bool) {
	t.Helper()
	field := func(status []byte, name string) string {
		if m := regexp.MustCompile(name + `:\s+(\d+)`).FindSubmatch(status); m != nil {
			return string(m[1])
		}
		return ""
	}
	for deadline := time.Now().Add(30 * time.Second); !filtered && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		users = make(map[string]bool)
		processes, err := filepath.Glob("/proc/[0-9]*")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range processes {
			status, err := os.ReadFile(p + "/status")
			at, linkErr := os.Readlink(p + "/root")
			if err != nil || linkErr != nil || at != root {
				continue // belongs to another root, or has ended
			}
			users[field(status, "Uid")] = true
			filtered = filtered || field(status, "Seccomp_filters") == "2" // the profile's filter and its own
		}
	}
	return users, filtered
}

// containerConfig is the part of an image's configuration that a runtime uses.
type containerConfig struct {
	User                 string
	Env, Entrypoint, Cmd []string
	WorkingDir           string
}

// unpackImage unpacks the layers of this machine's image.
func unpackImage(t *testing.T, name, root string) containerConfig {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	files := make(map[string][]byte)
	untar(t, f, func(h *tar.Header, r io.Reader) {
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	})
	type descriptor struct {
		Digest   string
		Platform struct{ Architecture, OS string }
	}
	blob := func(d descriptor, into any) []byte {
		data, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if !ok {
			t.Fatalf("the image has no blob %s", d.Digest)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("index.json: %v\n%s", err, files["index.json"])
	}
	blob(index.Manifests[0], &index)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	i := slices.IndexFunc(index.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if i < 0 {
		t.Fatalf("the image has no manifest for %s", runtime.GOARCH)
	}
	blob(index.Manifests[i], &manifest)
	for _, layer := range manifest.Layers {
		r, err := gzip.NewReader(bytes.NewReader(blob(layer, nil)))
		if err != nil {
			t.Fatal(err)
		}
		untar(t, r, func(h *tar.Header, r io.Reader) {
			path := filepath.Join(root, h.Name)
			if h.Typeflag == tar.TypeDir {
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
			} else {
				writeTo(t, path, h.FileInfo().Mode(), r)
			}
			if err := errors.Join(os.Chown(path, h.Uid, h.Gid), os.Chmod(path, h.FileInfo().Mode())); err != nil {
				t.Fatal(err)
			}
		})
	}
	var config struct{ Config containerConfig }
	blob(manifest.Config, &config)
	return config.Config
}

func untar(t *testing.T, r io.Reader, visit func(*tar.Header, io.Reader)) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		visit(h, archive)
	}
}

// addLibraries adds the C library if the program needs it. Release binaries do not; the test binary
// does, because it is compiled with the same settings as the tests.
func addLibraries(t *testing.T, root string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ldd", filepath.Join(root, "usr/bin/toolyard")).CombinedOutput()
	if err != nil {
		if *dist == "" && !strings.Contains(string(out), "not a dynamic executable") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if *dist != "" {
		t.Fatalf("the program of the image is not static:\n%s", out)
	}
	for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(string(out), -1) {
		data, err := os.ReadFile(m[1])
		if err != nil {
			t.Fatal(err)
		}
		writeTo(t, filepath.Join(root, m[1]), 0o755, bytes.NewReader(data))
	}
}
