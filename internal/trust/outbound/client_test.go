package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// A granted name must resolve to public addresses; private and loopback addresses must be granted
// explicitly.
func TestGrantedNamesLeadToPublicAddresses(t *testing.T) {
	private := Network{Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("169.254.169.254/32")}}
	for _, tt := range []struct {
		reach   Allowlist
		network Network
		host    string
		ip      string
		ok      bool
	}{
		{Allowlist{"api.example.com"}, Network{}, "api.example.com", "93.184.216.34", true},
		{Allowlist{"api.example.com"}, Network{}, "api.example.com", "127.0.0.1", false}, // rebinding
		{Allowlist{"api.example.com"}, Network{}, "api.example.com", "::1", false},
		{Allowlist{"api.example.com"}, Network{}, "api.example.com", "10.0.0.5", false},
		{Allowlist{"api.example.com"}, private, "api.example.com", "10.0.0.5", true},
		{Allowlist{"api.example.com"}, private, "api.example.com", "192.168.0.5", false},
		{Allowlist{"*.example.com"}, private, "api.example.com", "10.0.0.5", false},
		{Allowlist{"*"}, private, "api.example.com", "10.0.0.5", false},
		{Allowlist{"*"}, Network{}, "127.0.0.1", "127.0.0.1", false},
		{Allowlist{"*"}, Network{}, "localhost", "127.0.0.1", false},
		{Allowlist{"localhost"}, Network{}, "localhost", "127.0.0.1", true},
		{Allowlist{"localhost"}, Network{}, "localhost", "::1", true},
		{Allowlist{"localhost"}, Network{}, "localhost", "10.0.0.5", false},
		{Allowlist{"127.0.0.1:8080"}, Network{}, "127.0.0.1", "127.0.0.1", true},
		{Allowlist{"192.168.0.5"}, Network{}, "192.168.0.5", "192.168.0.5", true},
		{Allowlist{"[::1]"}, Network{}, "::1", "::1", true},
		{Allowlist{"169.254.169.254"}, Network{}, "169.254.169.254", "169.254.169.254", false},
		{Allowlist{"169.254.169.254"}, private, "169.254.169.254", "169.254.169.254", true},
	} {
		c := NewClient(tt.reach, nil, tt.network, 1<<10)
		_, exactly := c.reach.allows(tt.host, "8080")
		if err := c.admit(tt.host, exactly, netip.MustParseAddr(tt.ip)); (err == nil) != tt.ok {
			t.Errorf("%v, %s at %s: %v", tt.reach, tt.host, tt.ip, err)
		}
	}
}

// The client checks the connection, not only the URL.
func TestClientChecksTheConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	get := func(reach Allowlist, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = NewClient(reach, nil, Network{}, 1<<10).Do(req, "follow")
		return err
	}
	if err := get(Allowlist{"127.0.0.1"}, server.URL); err != nil {
		t.Error(err)
	}
	if err := get(Allowlist{"localhost"}, strings.Replace(server.URL, "127.0.0.1", "LOCALHOST", 1)); err != nil {
		t.Error(err)
	}
	var unreachable *NotAllowedError
	if err := get(Allowlist{"*"}, server.URL); !errors.As(err, &unreachable) {
		t.Error(err)
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		granted Allowlist
		pattern string
		want    bool
	}{
		{nil, "api.example.com", false},
		{Allowlist{"*.example.com"}, "api.example.com:443", true},
		{Allowlist{"api.example.com:8443"}, "api.example.com:443", false},
		{Allowlist{"api.example.com"}, "*", true},
		{Allowlist{"other.example"}, "*.example.com", false},
	} {
		if got := tt.granted.Overlaps(tt.pattern); got != tt.want {
			t.Errorf("%v, %s: %v", tt.granted, tt.pattern, got)
		}
	}
}
