package guard

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// Browser keeps web pages away from the server: every route refuses requests that a
// page of another origin makes, and requests to a loopback address under a foreign
// name (DNS rebinding). Origins are allowed to call all the same.
func Browser(next http.Handler, origins []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := suspicious(r, origins); reason != "" {
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

func suspicious(r *http.Request, origins []string) string {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && isLoopback(local.String()) && !isLoopback(r.Host) {
		return fmt.Sprintf("%q is not a name of this machine", r.Host)
	}
	if len(r.Header["Origin"]) > 1 {
		return "more than one Origin"
	}
	origin := r.Header.Get("Origin")
	if slices.Contains(origins, origin) {
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

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
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
