package acceptance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/config"
)

// docs/CONTRACT.md, followed word for word beside the tool that the README sells.
func TestContractDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "tools"), os.DirFS("../examples/paid/tools")); err != nil {
		t.Fatal(err)
	}
	followDocument(t, "../docs/CONTRACT.md", dir, 2*time.Minute, "PATH="+bin+":"+os.Getenv("PATH"))
}

// Every configuration that it shows is a whole one.
func TestContractConfigurations(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/CONTRACT.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		if b[2] != "yaml" {
			continue
		}
		n++
		if _, err := config.Parse("toolyard.yaml", []byte(b[3]), os.LookupEnv); err != nil {
			t.Errorf("%v in:\n%s", err, b[3])
		}
	}
	if n < 3 {
		t.Errorf("there are only %d configurations", n)
	}
}
