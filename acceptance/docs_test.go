package acceptance

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/internal/config"
)

// TestContractDocument follows docs/CONTRACT.md word for word, with the paid tool from the README.
func TestContractDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "tools"), os.DirFS("../examples/paid/tools")); err != nil {
		t.Fatal(err)
	}
	followDocument(t, "../docs/CONTRACT.md", dir, "PATH="+bin+":"+os.Getenv("PATH"))
}

// TestContextDocument follows docs/CONTEXT.md word for word, with the example CRM.
func TestContextDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tools"), 0o750); err != nil {
		t.Fatal(err)
	}
	followDocument(t, "../docs/CONTEXT.md", dir, append(startCRM(t), "PATH="+bin+":"+os.Getenv("PATH"))...)
}

// TestMigrateDocument follows docs/MIGRATE.md word for word in an empty folder.
func TestMigrateDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	followDocument(t, "../docs/MIGRATE.md", dir, "HOME="+dir, "PATH="+bin+":"+os.Getenv("PATH"))
}

// TestAddAToolDocument follows docs/ADD_A_TOOL.md word for word in an empty folder.
func TestAddAToolDocument(t *testing.T) {
	t.Parallel()
	followDocument(t, "../docs/ADD_A_TOOL.md", t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"))
}

// TestAgentsDocument follows docs/AGENTS.md word for word in an empty folder.
func TestAgentsDocument(t *testing.T) {
	t.Parallel()
	followDocument(t, "../docs/AGENTS.md", t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"))
}

// TestHomeDocument follows docs/HOME.md word for word in an empty folder, with a simulated house.
func TestHomeDocument(t *testing.T) {
	t.Parallel()
	home := fakehome.New(fakehome.Options{})
	defer home.Close()
	followDocument(t, "../docs/HOME.md", t.TempDir(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME_URL="+home.URL, "HOME_TOKEN="+fakehome.Token)
	if calls := home.Calls(); len(calls) != 1 {
		t.Error(calls)
	}
}

// TestTradingDocument follows docs/TRADING.md word for word in an empty folder, with a fake venue.
func TestTradingDocument(t *testing.T) {
	t.Parallel()
	venue := newVenue(t)
	followDocument(t, "../docs/TRADING.md", t.TempDir(), "HYPERLIQUID_URL="+venue.URL, "PATH="+bin+":"+os.Getenv("PATH"))
}

// startCRM runs examples/crm/server on a free port, and returns the variables that it prints.
func startCRM(t *testing.T) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "crm")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../examples/crm/server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--listen", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // returns an error because it was killed
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	variables, ok := strings.CutPrefix(strings.TrimSpace(line), "export ")
	if err != nil || !ok {
		t.Fatalf("%q %v", line, err)
	}
	return strings.Fields(variables)
}

// Every configuration in the documents is complete.
func TestContractConfigurations(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"AGENTS.md", "CONTRACT.md", "CONTEXT.md", "HOME.md"} {
		checkConfigurations(t, "../docs/"+document)
	}
}

func checkConfigurations(t *testing.T, document string) {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) (string, bool) { return "https://" + name + ".example.com", true }
	n := 0
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		if b[2] != "yaml" {
			continue
		}
		n++
		if _, err := config.Parse("toolyard.yaml", []byte(b[3]), getenv); err != nil {
			t.Errorf("%v in:\n%s", err, b[3])
		}
	}
	if n < 3 {
		t.Errorf("there are only %d configurations", n)
	}
}
