// Package inbound protects servers from their clients: it refuses cross-origin requests, parses
// query strings strictly, and limits how many resources one client may hold at the same time.
package inbound

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// RefuseCrossOrigin refuses requests from web pages of other origins, and requests for host names
// that do not belong to the server (DNS rebinding). Valid host names are those in hosts, loopback
// names on loopback, and IP addresses elsewhere. Pages from the given origins may call the server.
// Links from other sites may only open paths that start with one of pages, which must be static
// content.
func RefuseCrossOrigin(next http.Handler, origins, hosts []string, pages ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := refusalReason(r, origins, hosts, pages); reason != "" {
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

func refusalReason(r *http.Request, origins, hosts, pages []string) string {
	if !hasKnownHost(r, hosts) {
		return fmt.Sprintf("%q is not one of this server's host names", r.Host)
	}
	if len(r.Header["Origin"]) > 1 {
		return "more than one Origin header"
	}
	origin := r.Header.Get("Origin")
	if origin != "" && slices.Contains(origins, origin) {
		return ""
	}
	if followsLink(r, pages) {
		return ""
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return "the request comes from a page on another site"
	}
	if origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return fmt.Sprintf("origin %q is not allowed", origin)
	}
	return ""
}

// followsLink reports whether the request follows a link to a page.
func followsLink(r *http.Request, pages []string) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" &&
		slices.ContainsFunc(pages, func(page string) bool { return r.URL.Path == page || strings.HasPrefix(r.URL.Path, page+"/") })
}

// hasKnownHost reports whether the request is for one of this server's host names.
func hasKnownHost(r *http.Request, hosts []string) bool {
	if slices.ContainsFunc(hosts, func(h string) bool { return strings.EqualFold(h, hostOf(r.Host)) }) {
		return true
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local.String()) {
		return isLoopback(r.Host)
	}
	return net.ParseIP(hostOf(r.Host)) != nil || isLoopback(r.Host)
}

// hostOf removes the port from an address.
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

// allowOrigin sets the CORS headers for an allowed origin, and reports whether the request is a
// preflight request.
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
