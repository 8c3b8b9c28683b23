package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config/settings"
)

// helm takes minutes to compile, so only "make chart" sets these flags. Other runs check that the
// rendered files match the current chart.
var (
	helm        = flag.String("helm", "", "program that renders the chart and updates testdata")
	kubeconform = flag.String("kubeconform", "", "program that validates the rendered chart")
	swagger     = flag.String("swagger", "", "OpenAPI document of Kubernetes, for kubeconform")
)

const chart = "helm/toolyard"

func TestChartIsRendered(t *testing.T) {
	examples, err := filepath.Glob("helm/examples/*.yaml")
	if err != nil || len(examples) < 3 {
		t.Fatal(examples, err)
	}
	for _, example := range examples {
		t.Run(filepath.Base(example), func(t *testing.T) {
			golden := filepath.Join("testdata", "chart", filepath.Base(example))
			header := fmt.Sprintf("# Rendered by \"make chart\" from files with the digest %x.\n", digest(t, chart, example))
			if *helm != "" {
				runTool(t, *helm, "lint", "--strict", chart, "--values", example)
				text := runTool(t, *helm, "template", "yard", chart, "--namespace", "tools", "--kube-version", "1.34.0", "--values", example)
				if err := os.WriteFile(golden, []byte(header+text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			rendered, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(rendered), header) {
				t.Fatalf("%s is not of the current chart; run \"make chart\", and read the diff", golden)
			}
			for _, text := range configurations(string(rendered)) {
				name := filepath.Join(t.TempDir(), "toolyard.yaml")
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := settings.ReadConfig(settings.Options{File: name, Getenv: func(string) (string, bool) { return "", false }}); err != nil {
					t.Errorf("the rendered configuration is invalid: %v\n%s", err, text)
				}
			}
			if *kubeconform != "" {
				validate(t, string(rendered))
			}
		})
	}
}

// validate checks a rendered chart against the Kubernetes schemas, which reject misspelled fields.
func validate(t *testing.T, rendered string) {
	t.Helper()
	args := []string{"-strict", "-summary", "-skip", "ServiceMonitor,PrometheusRule", "-schema-location", schemas(t) + "/{{ .ResourceKind }}-{{ .ResourceAPIVersion }}.json"}
	check := func(text string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), *kubeconform, args...)
		cmd.Stdin = strings.NewReader(text)
		return cmd.CombinedOutput()
	}
	if out, err := check(rendered); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check(strings.Replace(rendered, "terminationGracePeriodSeconds", "terminationGraceSeconds", 1)); err == nil {
		t.Errorf("an unknown field is accepted:\n%s", out)
	}
}

// configurations returns each toolyard.yaml in a rendered chart.
func configurations(rendered string) (list []string) {
	for i, part := range strings.Split(rendered, "\n  toolyard.yaml: |\n") {
		if i == 0 {
			continue
		}
		var text strings.Builder
		for line := range strings.Lines(part) {
			line, ok := strings.CutPrefix(line, "    ")
			if !ok {
				break
			}
			text.WriteString(line)
		}
		list = append(list, text.String())
	}
	return list
}

// Values that cannot work are rejected with a reason.
func TestChartRefusesInvalidValues(t *testing.T) {
	if *helm == "" {
		t.Skip("run \"make chart\"")
	}
	for values, want := range map[string]string{
		"replicaCount=2":       "database.existingSecret",
		"apply.enabled=true":   "database.existingSecret",
		"ingress.enabled=true": "ingress.host",
		"replicas=2":           "additional properties",
		"image.digest=latest":  "image",
	} {
		out, err := exec.CommandContext(t.Context(), *helm, "template", "yard", chart, "--set", values).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %v, not %q\n%s", values, err, want, out)
		}
	}
}

func runTool(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// digest covers the names and contents of all files.
func digest(t *testing.T, roots ...string) []byte {
	t.Helper()
	h := sha256.New()
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", filepath.ToSlash(path), len(data), data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return h.Sum(nil)[:16]
}

// schemas writes a JSON Schema for each kind in the OpenAPI document. The schemas reject unknown
// fields.
func schemas(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(*swagger)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Definitions map[string]map[string]any
	}
	if err := json.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	for name, d := range document.Definitions {
		switch {
		case d["format"] == "int-or-string":
			document.Definitions[name] = map[string]any{"type": []string{"string", "integer"}}
		case strings.HasSuffix(name, "resource.Quantity"):
			document.Definitions[name] = map[string]any{"type": []string{"string", "number"}}
		case d["properties"] != nil:
			d["additionalProperties"] = false
		}
	}
	dir := t.TempDir()
	all, err := json.Marshal(map[string]any{"definitions": document.Definitions})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "all.json"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, d := range document.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			kind, _ := k.(map[string]any)
			file := strings.ToLower(fmt.Sprintf("%s-%s.json", kind["kind"], kind["version"]))
			text := fmt.Sprintf(`{"$ref": "all.json#/definitions/%s"}`, name)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
