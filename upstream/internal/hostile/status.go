package hostile

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// onHTTP lists the transports that use HTTP.
var onHTTP = []Transport{HTTP, SSE}

// requests are all requests that a client makes over HTTP.
var requests = []string{"tools/call", "tools/list", "initialize", "notifications/initialized", atGet, atDelete}

// web returns a behaviour of an HTTP server at any request.
func web(name, about string, respond func(*turn)) Behaviour {
	return Behaviour{Name: name, About: about, Transports: onHTTP, at: requests, Unanswered: true, respond: respond}
}

// refusal returns a behaviour that refuses a request with a status.
func refusal(status int) Behaviour {
	return web(fmt.Sprintf("status-%d", status), fmt.Sprintf("refuses a request with status %d", status), func(t *turn) {
		h := t.call.w.Header()
		h.Set("WWW-Authenticate", `Bearer error="invalid_token", resource_metadata="`+t.Lure+`/.well-known/oauth-protected-resource"`)
		h.Set("Retry-After", t.one("0", "1", "-1", "99999999999999", "soon", "Fri, 31 Dec 9999 23:59:59 GMT"))
		h.Set("Allow", "POST")
		text := t.one(`{"error":"poison"}`, "poison", "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"poison"}}`, "<html>poison</html>")
		h.Set("Content-Type", t.one("application/json", "text/plain", "text/html", "text/event-stream", ""))
		t.call.w.WriteHeader(status)
		_, _ = io.WriteString(t.call.w, text)
	})
}

// statusBehaviours misuse the headers of HTTP responses.
var statusBehaviours = []Behaviour{
	refusal(400), refusal(401), refusal(403), refusal(404), refusal(405), refusal(406), refusal(429), refusal(500), refusal(502), refusal(503),
	web("status-odd", "answers with a status that fits nothing", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, head(t.one("204 No Content", "206 Partial Content", "304 Not Modified", "299 Maybe", "999 Poison", "100 Continue", "000 Nothing", "-1 Less", "20x Odd"), "Content-Length: 2", "Content-Type: application/json")+"\r\n{}")
		})
	}),
	web("accepted", "accepts a request with status 202 and never answers", func(t *turn) { t.call.w.WriteHeader(http.StatusAccepted) }),
	web("html-200", "answers with a web page and status 200", func(t *turn) {
		t.call.w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(t.call.w, "<!doctype html><title>Log in</title>"+strings.Repeat("<p>poison", t.between(1, 10_000)))
	}),
	web("html-500", "answers with a web page and status 500", func(t *turn) {
		t.call.w.Header().Set("Content-Type", t.one("text/html", "application/json"))
		t.call.w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(t.call.w, "<!doctype html><title>Oops</title>"+strings.Repeat("<p>poison", t.between(1, 10_000)))
	}),
	{Name: "type-wrong", About: "gives the right answer under another content type", Transports: []Transport{HTTP}, at: anywhere, respond: func(t *turn) {
		t.call.w.Header()["Content-Type"] = [][]string{{"text/html"}, {"text/plain"}, {"application/json", "text/event-stream"}, {";;;"}, {"application/json; charset=utf-16"}, {"image/png"}}[t.rng.IntN(6)]
		t.answer()
	}},
	{Name: "type-swapped", About: "sends an event stream as JSON, or JSON as an event stream", Transports: []Transport{HTTP}, at: anywhere, Unanswered: true, respond: func(t *turn) {
		if t.rng.IntN(2) == 0 {
			t.call.w.Header().Set("Content-Type", "application/json")
			t.raw("event: message\ndata: " + t.envelope() + "\n\n")
			return
		}
		t.call.w.Header().Set("Content-Type", "text/event-stream")
		t.raw(t.envelope() + "\n\n")
	}},
	web("silence", "takes a request and says nothing", func(t *turn) { <-t.gone() }),
	web("headers-many", "answers with a megabyte of headers", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, head("200 OK", "Content-Type: application/json")+strings.Repeat("X-Poison: "+strings.Repeat("p", 990)+"\r\n", t.between(80, 1050))+"Content-Length: 2\r\n\r\n{}")
			wait(conn)
		})
	}),
	web("headers-endless", "answers with headers that have no end", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, head("200 OK"))
			block := strings.Repeat(t.one("X-Poison: p\r\n", "p", "X: \r\n "), 1000)
			for put(conn, block) {
				time.Sleep(time.Millisecond)
			}
		})
	}),
	web("headers-drip", "sends its headers byte by byte", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, head("200 OK"))
			for put(conn, t.one("X", ": ", "\r\nX", "p")) {
				time.Sleep(t.milliseconds(1, 20))
			}
		})
	}),
	web("headers-odd", "sends headers that are none", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, t.one("", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n", "HTTP/1.1 200 OK\r\nX\x00: y\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
		})
	}),
	web("continue-endless", "answers with 100 Continue, again and again", func(t *turn) {
		t.connection(func(conn net.Conn) {
			block := t.one("HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: <"+t.Lure+">; rel=preload\r\n\r\n", "HTTP/1.1 102 Processing\r\nX: "+strings.Repeat("p", 1000)+"\r\n\r\n")
			for n := 0; put(conn, block); n++ {
				if n%20 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}),
	web("switch", "answers with 101 Switching Protocols", func(t *turn) {
		t.connection(func(conn net.Conn) {
			put(conn, head("101 Switching Protocols", "Upgrade: "+t.one("websocket", "h2c", "poison"), "Connection: Upgrade")+"\r\npoison")
			wait(conn)
		})
	}),
	heavy(web("gzip-bomb", "answers with a few bytes that unpack to gigabytes", func(t *turn) {
		t.packed(t.one("gzip", "x-gzip", "gzip, gzip"), gzipped())
	})),
	heavy(web("deflate-bomb", "answers with deflated bytes that nobody asked for", func(t *turn) {
		t.packed(t.one("deflate", "br", "zstd", "GZIP"), deflated())
	})),
	web("gzip-lie", "says that its answer is compressed, but it is not", func(t *turn) {
		t.call.w.Header().Set("Content-Encoding", t.one("gzip", "deflate", "br", "aes128gcm"))
		t.call.w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(t.call.w, t.forged())
	}),
}

// space is a megabyte of whitespace, which may precede any JSON text.
var space = bytes.Repeat([]byte(" "), 1<<20)

// gzipped is the compressed form of space, which can be repeated.
var gzipped = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(space) // writes to memory cannot fail
	_ = z.Close()
	return b.Bytes()
})

// deflated is like gzipped, for deflate.
var deflated = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestCompression) // the level is valid
	_, _ = z.Write(space)
	_ = z.Flush()
	return b.Bytes()
})

// packed sends many compressed megabytes with a content encoding.
func (t *turn) packed(encoding string, megabyte []byte) {
	h := t.call.w.Header()
	h.Set("Content-Encoding", encoding)
	h.Set("Content-Type", "application/json")
	_, _ = t.call.w.Write(bytes.Repeat(megabyte, t.size(4096, 256)))
}

// redirectBehaviours redirect the client.
var redirectBehaviours = []Behaviour{
	redirect("redirect-away", "sends the client to another host", func(t *turn) string {
		return t.Lure + t.one("", "/mcp", "/sse", "/?a=b")
	}),
	redirect("redirect-spelled", "sends the client to another host in an unusual spelling", func(t *turn) string {
		address := strings.TrimPrefix(t.Lure, "http:")
		return t.one(address, "HTTP:"+address, "http:/\\"+strings.TrimLeft(address, "/"), "http://localhost@"+strings.TrimLeft(address, "/"), "http:////"+strings.TrimLeft(address, "/"), "\\\\"+strings.TrimLeft(address, "/"))
	}),
	redirect("redirect-scheme", "sends the client to something that is no web server", func(t *turn) string {
		return t.one("file://"+t.LureFile, "javascript:alert(1)", "gopher://127.0.0.1/", "data:application/json,{}", "ftp://127.0.0.1/", "unix:/tmp/x", "")
	}),
	redirect("redirect-loop", "sends the client in a circle", func(t *turn) string {
		return t.call.r.URL.Path + "?" + t.call.r.URL.RawQuery
	}),
	redirect("redirect-long", "sends the client ever further", func(t *turn) string {
		return t.call.r.URL.Path + "?" + t.call.r.URL.RawQuery + "&" + strings.Repeat("p", t.between(100, 20_000))
	}),
}

func redirect(name, about string, where func(*turn) string) Behaviour {
	return web(name, about, func(t *turn) {
		t.call.w.Header()["Location"] = []string{where(t)}
		t.call.w.WriteHeader([]int{301, 302, 303, 307, 308, 300, 305}[t.rng.IntN(7)])
	})
}
