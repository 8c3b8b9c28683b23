// Package inbound protects servers from their clients: it refuses cross-origin requests, parses
// query strings strictly, and limits how much one client may hold at once.
package inbound

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// RefuseCrossOrigin keeps web pages away from the server: every route refuses requests that a
// page of another origin makes, and requests under a name that is not ours (DNS
// rebinding): on loopback only its own names are, elsewhere only bare addresses, and
// everywhere the hosts. Origins are allowed to call all the same. Links of other sites may lead
// to the pages, which are prefixes of paths: what is there says nothing and does nothing by itself.
func RefuseCrossOrigin(next http.Handler, origins, hosts []string, pages ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := suspicious(r, origins, hosts, pages); reason != "" {
			http.Error(w, "refused: "+reason, http.StatusForbidden)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && slices.Contains(origins, origin) {
			if allowOrigin(w.Header(), r, origin) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func suspicious(r *http.Request, origins, hosts, pages []string) string {
	if !isOurs(r, hosts) {
		return fmt.Sprintf("%q is not a name of this server", r.Host)
	}
	if len(r.Header["Origin"]) > 1 {
		return "more than one Origin"
	}
	origin := r.Header.Get("Origin")
	if origin != "" && slices.Contains(origins, origin) {
		return ""
	}
	if followsLink(r, pages) {
		return ""
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return "a page of another site asks"
	}
	if origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return fmt.Sprintf("origin %q is not allowed", origin)
	}
	return ""
}

// followsLink reports whether somebody follows a link to a page.
func followsLink(r *http.Request, pages []string) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		slices.ContainsFunc(pages, func(page string) bool { return r.URL.Path == page || strings.HasPrefix(r.URL.Path, page+"/") })
}

// isOurs reports whether the request names us by a name that we have.
func isOurs(r *http.Request, hosts []string) bool {
	if slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, hostOf(r.Host)) }) {
		return true
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local.String()) {
		return isLoopback(r.Host)
	}
	return net.ParseIP(hostOf(r.Host)) != nil || isLoopback(r.Host)
}

// hostOf is an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

func isLoopback(address string) bool {
	host := hostOf(address)
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}

// allowOrigin answers the browser's questions about an allowed origin. It reports
// whether the request was nothing but such a question.
func allowOrigin(h http.Header, r *http.Request, origin string) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	return true
}
