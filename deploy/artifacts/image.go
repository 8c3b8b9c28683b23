package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

// OCI media types.
const (
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaConfig   = "application/vnd.oci.image.config.v1+json"
	mediaLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// user is the process's user and group ID. Distroless images use the same ID.
const user = 65532

// certificates is the path of the root certificates on Debian and most other systems.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// entry is a file in a layer, or a folder if it has no data.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// writeImage writes an OCI layout as a tar archive: an index with an image for each Linux binary.
// Each image has a layer with certificates and folders, which seldom changes, and one with the program.
func writeImage(version, out string, binaries []binary) error {
	base, err := baseLayer()
	if err != nil {
		return err
	}
	layout := &layout{blobs: map[string][]byte{}}
	var images []object
	for _, b := range binaries {
		if b.system != "linux" {
			continue
		}
		image, err := layout.addImage(version, b, base)
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	if len(images) == 0 {
		return errors.New("the image needs a binary for Linux")
	}
	index := layout.addJSON(mediaIndex, object{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": images})
	index["annotations"] = object{"org.opencontainers.image.ref.name": version}
	return layout.write(out, index)
}

func baseLayer() ([]entry, error) {
	roots, err := os.ReadFile(certificates)
	if err != nil {
		return nil, fmt.Errorf("%w; install the ca-certificates package", err)
	}
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: roots},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\ntoolyard:x:%d:%[1]d:Toolyard:/home/toolyard:/sbin/nologin\n", user)},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\ntoolyard:x:%d:\n", user)},
		{name: "home/", mode: 0o755},
		{name: "home/toolyard/", mode: 0o755, owner: user},
		{name: "tmp/", mode: 0o1777},
		{name: "toolyard/", mode: 0o755, owner: user},
	}, nil
}

// layout is the content of an OCI layout.
type layout struct {
	blobs map[string][]byte // keyed by SHA-256 digest
}

// add stores a blob and returns its descriptor.
func (l *layout) add(mediaType string, data []byte) object {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	l.blobs[digest] = data
	return object{"mediaType": mediaType, "digest": "sha256:" + digest, "size": len(data)}
}

func (l *layout) addJSON(mediaType string, value any) object {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // unreachable: the value consists of strings, numbers, lists and maps
	}
	return l.add(mediaType, text)
}

// addLayer stores a layer and returns its descriptor and the digest of its uncompressed content.
func (l *layout) addLayer(entries []entry) (descriptor object, diffID string, err error) {
	plain, err := archive(entries)
	if err != nil {
		return nil, "", err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.DefaultCompression)
	if err == nil {
		_, err = w.Write(plain)
		err = errors.Join(err, w.Close())
	}
	sum := sha256.Sum256(plain)
	return l.add(mediaLayer, packed.Bytes()), "sha256:" + hex.EncodeToString(sum[:]), err
}

// addImage stores one platform's image and returns its descriptor.
func (l *layout) addImage(version string, b binary, base []entry) (object, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	texts, err := buildinfo.Licenses()
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	var layers []object
	var diffs []string
	for _, entries := range [][]entry{base, {
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/toolyard", mode: 0o755, data: program},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/licenses/", mode: 0o755},
		{name: "usr/share/licenses/toolyard/", mode: 0o755},
		{name: "usr/share/licenses/toolyard/LICENSE", mode: 0o644, data: license},
		{name: "usr/share/licenses/toolyard/licenses.txt", mode: 0o644, data: texts},
	}} {
		layer, diff, err := l.addLayer(entries)
		if err != nil {
			return nil, err
		}
		layers, diffs = append(layers, layer), append(diffs, diff)
	}
	config := l.addJSON(mediaConfig, object{
		"architecture": b.arch, "os": b.system,
		"config": imageConfig(version, b),
		"rootfs": object{"type": "layers", "diff_ids": diffs},
	})
	image := l.addJSON(mediaManifest, object{"schemaVersion": 2, "mediaType": mediaManifest, "config": config, "layers": layers})
	image["platform"] = object{"architecture": b.arch, "os": b.system}
	return image, nil
}

// imageConfig returns the configuration that runs the image. The program writes only its cache,
// under /tmp.
func imageConfig(version string, b binary) object {
	labels := object{
		"org.opencontainers.image.title":       "toolyard",
		"org.opencontainers.image.description": description,
		"org.opencontainers.image.source":      homepage,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}
	if b.commit != "" {
		labels["org.opencontainers.image.revision"] = b.commit
	}
	return object{
		"User":         fmt.Sprintf("%d:%[1]d", user),
		"Env":          []string{"PATH=/usr/bin", "HOME=/home/toolyard", "XDG_CACHE_HOME=/tmp", "SSL_CERT_FILE=" + certificates},
		"Entrypoint":   []string{"/usr/bin/toolyard"},
		"Cmd":          []string{"serve", "--listen", "0.0.0.0:3001"},
		"WorkingDir":   "/toolyard",
		"ExposedPorts": object{"3001/tcp": object{}},
		"Labels":       labels,
		"StopSignal":   "SIGTERM",
		"Healthcheck": object{
			"Test":     []string{"CMD", "/usr/bin/toolyard", "health"},
			"Interval": 30 * time.Second, "Timeout": 5 * time.Second, "StartPeriod": 15 * time.Second, "Retries": 3,
		},
	}
}

// archive packs entries with no timestamps or machine names, so that equal inputs produce equal
// images.
func archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		if e.data == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// write writes the layout, whose only entry is the index.
func (l *layout) write(name string, index object) error {
	text, err := json.Marshal(object{"schemaVersion": 2, "mediaType": mediaIndex, "manifests": []object{index}})
	if err != nil {
		return err
	}
	entries := []entry{
		{name: "oci-layout", mode: 0o644, data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, data: text},
		{name: "blobs/", mode: 0o755},
		{name: "blobs/sha256/", mode: 0o755},
	}
	for _, digest := range slices.Sorted(maps.Keys(l.blobs)) {
		entries = append(entries, entry{name: "blobs/sha256/" + digest, mode: 0o644, data: l.blobs[digest]})
	}
	data, err := archive(entries)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644) //nolint:gosec // a public file
}
