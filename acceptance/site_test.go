package acceptance

import (
	"flag"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

var sitePictures = flag.String("site-pictures", "", "folder for screenshots of the documentation site")

// sitePages returns the HTML files of the built site, by path. It skips the test if there are none.
func sitePages(t *testing.T) (site fs.FS, pages map[string]string) {
	t.Helper()
	site = os.DirFS("../site/dist")
	if _, err := fs.Stat(site, "index.html"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the documentation site is not built: run make site")
		}
		t.Skip("the documentation site is not built: run make site")
	}
	pages = make(map[string]string)
	err := fs.WalkDir(site, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		data, err := fs.ReadFile(site, name)
		pages[name] = string(data)
		return err
	})
	if err != nil || len(pages) < 30 {
		t.Fatal(err, len(pages))
	}
	return site, pages
}

// Two pages must not have the same address.
func TestSiteRefusesEqualAddresses(t *testing.T) {
	t.Parallel()
	script := `import { address, distinct } from "./pages.mjs"; distinct(process.argv.slice(1).map((file) => ({ file, id: address(file) })));`
	for _, tt := range []struct {
		files string
		want  string // text in the error; empty if there is none
	}{
		{"README.md IDENTITY.md providers/README.md", ""},
		{"README.md IDENTITY.md identity/README.md", "docs/IDENTITY.md and docs/identity/README.md have the same address identity/"},
		{"ADD_A_TOOL.md add-a-tool.md", "have the same address add-a-tool/"},
	} {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{"--input-type=module", "--eval", script}, strings.Fields(tt.files)...)...)
		cmd.Dir = "../site"
		out, err := cmd.CombinedOutput()
		if (err != nil) != (tt.want != "") || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v\n%s", tt.files, err, out)
		}
	}
}

var reference = regexp.MustCompile(`\b(href|src)="([^"]*)"`)

// Every link on the site leads to an existing file and anchor, and pages load only files from the
// site.
func TestSiteLinks(t *testing.T) {
	t.Parallel()
	site, pages := sitePages(t)
	for name, html := range pages {
		if name == "404.html" { // this page's links are absolute
			continue
		}
		for _, m := range reference.FindAllStringSubmatch(html, -1) {
			link, err := url.Parse(m[2])
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if link.IsAbs() {
				if m[1] == "src" {
					t.Errorf("%s loads %s", name, m[2])
				}
				continue
			}
			file := name
			if link.Path != "" {
				file = path.Join(path.Dir(name), link.Path)
			}
			if info, err := fs.Stat(site, file); err == nil && info.IsDir() {
				file = path.Join(file, "index.html")
			}
			if _, err := fs.Stat(site, file); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[2])
			} else if link.Fragment != "" && !strings.Contains(pages[file], ` id="`+link.Fragment+`"`) {
				t.Errorf("%s links to %s, which has no such anchor", name, m[2])
			}
		}
	}
}

// The pages, including styles and scripts, are smaller than 1 MB.
func TestSiteIsSmall(t *testing.T) {
	t.Parallel()
	site, pages := sitePages(t)
	size := 0
	for _, html := range pages {
		size += len(html)
	}
	for _, name := range []string{"site.css", "site.js", "theme.js", "icon.svg", "sitemap.xml", "llms.txt"} {
		data, err := fs.ReadFile(site, name)
		if err != nil {
			t.Fatal(err)
		}
		size += len(data)
	}
	t.Logf("%d pages, %d kB", len(pages), size/1000)
	if size > 1_000_000 {
		t.Errorf("the pages have %d bytes", size)
	}
}

// In Chromium, the site makes no requests to other hosts and is accessible, in both themes and on a
// phone.
func TestSiteInBrowser(t *testing.T) {
	t.Parallel()
	site, _ := sitePages(t)
	mux := http.NewServeMux()
	mux.Handle("/docs/", http.StripPrefix("/docs/", http.FileServerFS(site)))
	server := httptest.NewServer(mux)
	defer server.Close()
	browse(t, "site.mjs", map[string]any{"url": server.URL, "site": server.URL + "/docs/", "artifacts": t.TempDir(), "pictures": *sitePictures})
}
