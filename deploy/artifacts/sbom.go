package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"strings"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
)

// These types form a CycloneDX 1.6 document.
type (
	bom struct {
		Format       string          `json:"bomFormat"`
		SpecVersion  string          `json:"specVersion"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []bomComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp,omitempty"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Type     string       `json:"type"`
		Ref      string       `json:"bom-ref"`
		Name     string       `json:"name"`
		Version  string       `json:"version"`
		Hashes   []bomHash    `json:"hashes,omitempty"`
		Licenses []bomLicense `json:"licenses,omitempty"`
		PURL     string       `json:"purl"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomLicense struct {
		Expression string `json:"expression"`
	}
	bomDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// writeSBOM lists a binary's Go modules and the npm packages that it embeds.
func writeSBOM(version, out string, binaries []binary) error {
	if len(binaries) != 1 {
		return errors.New("an SBOM describes one binary")
	}
	b := binaries[0]
	data, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	main := bomComponent{
		Type: "application", Name: "toolyard", Version: version,
		Hashes: []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licenses: []bomLicense{{"Apache-2.0"}},
		PURL: purl("golang", buildinfo.Module, "v"+version),
	}
	main.Ref = main.PURL
	doc := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: bomMetadata{Timestamp: b.date, Component: main}}
	depends := bomDependency{Ref: main.Ref}
	for _, c := range buildinfo.Components(b.build) {
		kind := "golang"
		if c.Ecosystem == buildinfo.NPM {
			kind = "npm"
		}
		listed := bomComponent{Type: "library", Name: c.Name, Version: c.Version, PURL: purl(kind, c.Name, c.Version)}
		listed.Ref = listed.PURL
		if c.License != "" {
			listed.Licenses = []bomLicense{{c.License}}
		}
		doc.Components = append(doc.Components, listed)
		depends.DependsOn = append(depends.DependsOn, listed.Ref)
	}
	doc.Dependencies = []bomDependency{depends}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(out, append(text, '\n'), 0o644) //nolint:gosec // a public file
}

// purl returns a package URL.
func purl(kind, name, version string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = strings.ReplaceAll(url.PathEscape(parts[i]), "@", "%40")
	}
	return "pkg:" + kind + "/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}
