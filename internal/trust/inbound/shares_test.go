package inbound

import "testing"

func TestOriginOfAnAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1", "[::ffff:127.0.0.1]:80": "127.0.0.1", "[2001:db8::1]:80": "2001:db8::/64",
		"[2001:db8::ffff:2]:81": "2001:db8::/64", "[fe80::1%eth0]:80": "fe80::/64", "pipe": "unknown", "": "unknown",
	} {
		if got := CallerAddress(remote); got != want {
			t.Errorf("%s is counted under %s, not %s", remote, got, want)
		}
	}
}
