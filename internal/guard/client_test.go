package guard

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// A name that was granted leads to public addresses only; those of this machine and its
// network must be granted as such.
func TestGrantedNamesLeadToPublicAddresses(t *testing.T) {
	private := Network{Private: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("169.254.169.254/32")}}
	for _, tt := range []struct {
		reach   Reach
		network Network
		host    string
		ip      string
		ok      bool
	}{
		{Reach{"api.example.com"}, Network{}, "api.example.com", "93.184.216.34", true},
		{Reach{"api.example.com"}, Network{}, "api.example.com", "127.0.0.1", false}, // rebinding
		{Reach{"api.example.com"}, Network{}, "api.example.com", "::1", false},
		{Reach{"api.example.com"}, Network{}, "api.example.com", "10.0.0.5", false},
		{Reach{"api.example.com"}, private, "api.example.com", "10.0.0.5", true},
		{Reach{"api.example.com"}, private, "api.example.com", "192.168.0.5", false},
		{Reach{"*.example.com"}, private, "api.example.com", "10.0.0.5", false},
		{Reach{"*"}, private, "api.example.com", "10.0.0.5", false},
		{Reach{"*"}, Network{}, "127.0.0.1", "127.0.0.1", false},
		{Reach{"*"}, Network{}, "localhost", "127.0.0.1", false},
		{Reach{"localhost"}, Network{}, "localhost", "127.0.0.1", true},
		{Reach{"localhost"}, Network{}, "localhost", "::1", true},
		{Reach{"localhost"}, Network{}, "localhost", "10.0.0.5", false},
		{Reach{"127.0.0.1:8080"}, Network{}, "127.0.0.1", "127.0.0.1", true},
		{Reach{"192.168.0.5"}, Network{}, "192.168.0.5", "192.168.0.5", true},
		{Reach{"[::1]"}, Network{}, "::1", "::1", true},
		{Reach{"169.254.169.254"}, Network{}, "169.254.169.254", "169.254.169.254", false},
		{Reach{"169.254.169.254"}, private, "169.254.169.254", "169.254.169.254", true},
	} {
		c := NewClient(tt.reach, nil, tt.network, 1<<10)
		_, exactly := c.reach.allows(tt.host, "8080")
		if err := c.admit(tt.host, exactly, netip.MustParseAddr(tt.ip)); (err == nil) != tt.ok {
			t.Errorf("%v, %s at %s: %v", tt.reach, tt.host, tt.ip, err)
		}
	}
}

// The check is made for the connection, not only for the URL.
func TestClientChecksTheConnection(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	get := func(reach Reach, url string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = NewClient(reach, nil, Network{}, 1<<10).Do(req, "follow")
		return err
	}
	if err := get(Reach{"127.0.0.1"}, server.URL); err != nil {
		t.Error(err)
	}
	if err := get(Reach{"localhost"}, strings.Replace(server.URL, "127.0.0.1", "LOCALHOST", 1)); err != nil {
		t.Error(err)
	}
	var unreachable *Unreachable
	if err := get(Reach{"*"}, server.URL); !errors.As(err, &unreachable) {
		t.Error(err)
	}
}

func TestOverlaps(t *testing.T) {
	for _, tt := range []struct {
		granted Reach
		pattern string
		want    bool
	}{
		{nil, "api.example.com", false},
		{Reach{"*.example.com"}, "api.example.com:443", true},
		{Reach{"api.example.com:8443"}, "api.example.com:443", false},
		{Reach{"api.example.com"}, "*", true},
		{Reach{"other.example"}, "*.example.com", false},
	} {
		if got := tt.granted.Overlaps(tt.pattern); got != tt.want {
			t.Errorf("%v, %s: %v", tt.granted, tt.pattern, got)
		}
	}
}
