package outbound

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// spelling is a way to write a forbidden address.
type spelling struct {
	host string // as written in a URL
	ip   netip.Addr
}

// victims are forbidden addresses.
var victims = []string{
	"127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.7", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
	"100.100.100.200", "192.0.0.192", "198.18.0.1", "255.255.255.255",
}

// spellings4 returns the ways to write an IPv4 address, including embedded forms.
func spellings4(ip netip.Addr) []string {
	b := ip.As4()
	n := binary.BigEndian.Uint32(b[:])
	dotted := func(format string) string { return fmt.Sprintf(format, b[0], b[1], b[2], b[3]) }
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	return []string{
		fmt.Sprint(n), fmt.Sprint(uint64(n) + 1<<32), fmt.Sprintf("%#x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("%#o", n), fmt.Sprintf("0x%016x", n),
		dotted("0x%x.0x%x.0x%x.0x%x"), dotted("0X%X.0X%X.0X%X.0X%X"), dotted("0%o.0%o.0%o.0%o"), dotted("%04o.%04o.%04o.%04o"),
		dotted("%03d.%03d.%03d.%03d"), dotted("%d.%d.0x%x.%d"), dotted("0x%x.%d.%d.0%o"),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff), fmt.Sprintf("0x%x.%d", b[0], n&0xffffff),
		dotted("%d.%d.%d.%d."), dotted("%d.%d.%d.%d.."), dotted("[%d.%d.%d.%d]"), dotted("%d。%d。%d。%d"), dotted("%d．%d｡%d.%d"),
		strings.Map(fullWidth, ip.String()), strings.Map(circled, ip.String()), strings.Map(arabic, ip.String()),
		strings.ReplaceAll(ip.String(), "1", "%31"), strings.ReplaceAll(ip.String(), ".", "%2e"), url.PathEscape(strings.Map(fullWidth, ip.String())),
		"[::ffff:" + ip.String() + "]", "[::FFFF:" + ip.String() + "]", "[0:0:0:0:0:ffff:" + ip.String() + "]", "[::ffff:" + hex + "]",
		"[::" + ip.String() + "]", "[64:ff9b::" + ip.String() + "]", "[64:ff9b::" + hex + "]", "[64:ff9b:1::" + ip.String() + "]",
		"[2002:" + hex + "::]", "[2002:" + hex + "::1]", "[::ffff:0:" + ip.String() + "]", "[2001:0:0:0:0:0:" + inverted(b) + "]",
		"[::ffff:" + ip.String() + "%25lo]", ip.String() + "%25lo",
		"mcp.example.com@" + ip.String(), "mcp.example.com%40" + ip.String(), "mcp.example.com:x@" + ip.String(), ip.String() + "%00.example.com", ip.String() + "%0d%0a",
		ip.String() + ".nip.io", strings.ReplaceAll(ip.String(), ".", "-") + ".sslip.io", "x." + ip.String() + ".xip.example", fmt.Sprintf("%08x.rbndr.example", n),
	}
}

func fullWidth(r rune) rune {
	if '0' <= r && r <= '9' {
		return '０' + r - '0'
	}
	return r
}

func circled(r rune) rune {
	if '1' <= r && r <= '9' {
		return '①' + r - '1'
	}
	return r
}

func arabic(r rune) rune {
	if '0' <= r && r <= '9' {
		return '٠' + r - '0'
	}
	return r
}

// inverted returns an address in Teredo's encoding.
func inverted(b [4]byte) string {
	return fmt.Sprintf("%02x%02x:%02x%02x", ^b[0], ^b[1], ^b[2], ^b[3])
}

// spellings returns all ways to write all forbidden addresses.
func spellings() (list []spelling) {
	for _, victim := range victims {
		ip := netip.MustParseAddr(victim)
		for _, host := range spellings4(ip) {
			list = append(list, spelling{host, ip})
		}
	}
	for _, host := range []string{
		"[0:0:0:0:0:0:0:1]", "[0::1]", "[::0001]", "[::1%25lo]", "[::0:1]", "[0000:0000:0000:0000:0000:0000:0000:0001]", "[::%31]", "mcp.example.com@[::1]",
		"LOCALHOST", "localhost.", "Localhost", "localhost.localdomain", "a.localhost", "ip6-localhost", "ⓛocalhost", "ｌocalhost", "%6cocalhost", "localhost%00",
		"local", "loop.example", "127.1", "0", "0x", "00", "::1",
	} {
		list = append(list, spelling{host, netip.IPv6Loopback()})
	}
	for _, host := range []string{
		"[fe80::1]", "[FE80::1]", "[fe80::1%25lo]", "[fec0::1]", "[::]", "[0::0]", "[ff02::1]", "[fd00:ec2::254]", "[FD00:EC2::254]", "[fd00:0ec2::254]",
		"[fd20:ce::254]", "[fd00:42::42]", "[100::1]", "[2001:0::1]", "[2001:db8::0001]", "[3fff:0::1]", "[5f00:0::1]",
	} {
		ip, _, _ := strings.Cut(strings.Trim(host, "[]"), "%")
		list = append(list, spelling{host, netip.MustParseAddr(ip)})
	}
	return list
}

// canary counts connections to one port on both loopback addresses.
func canary(t *testing.T) (port string, hits *atomic.Int32) {
	t.Helper()
	hits = &atomic.Int32{}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	listeners := []net.Listener{l}
	if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::1]:"+port); err == nil {
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				hits.Add(1)
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				_ = conn.Close()
			}
		}()
	}
	return port, hits
}

// leadingTo returns a resolver that resolves every name to the same addresses.
func leadingTo(answer func() []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer func() { _ = theirs.Close() }()
			_ = theirs.SetDeadline(time.Now().Add(time.Minute))
			_ = answerDNS(theirs, answer())
		}()
		return ours, nil
	}}
}

// answerDNS responds to one query over a stream.
func answerDNS(conn io.ReadWriter, addrs []netip.Addr) error {
	var size uint16
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return err
	}
	query := make([]byte, size)
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	end := 12 // end of the question's name, type and class
	for query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5
	kind := binary.BigEndian.Uint16(query[end-4:])
	var answers []byte
	count := uint16(0)
	for _, ip := range addrs {
		if raw := ip.AsSlice(); kind == map[int]uint16{4: 1, 16: 28}[len(raw)] {
			answers = append(answers, 0xC0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
			answers = append(answers, raw...)
			count++
		}
	}
	out := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
	binary.BigEndian.PutUint16(out[6:], count)
	out = append(out, answers...)
	_, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	return err
}

func always(addrs ...string) func() []netip.Addr {
	var list []netip.Addr
	for _, a := range addrs {
		list = append(list, netip.MustParseAddr(a))
	}
	return func() []netip.Addr { return list }
}

func TestSpellingsAreMany(t *testing.T) {
	different := map[string]bool{}
	for _, s := range spellings() {
		different[s.host] = true
	}
	if len(different) < 300 {
		t.Errorf("only %d spellings", len(different))
	}
	t.Logf("%d spellings", len(different))
}

// TestSpellingsHaveTeeth checks that a client with no protection reaches the canary.
func TestSpellingsHaveTeeth(t *testing.T) {
	port, hits := canary(t)
	dialer := &net.Dialer{Resolver: leadingTo(always("127.0.0.1")), Timeout: time.Second}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if !isLoopback(address) { // only loopback addresses can be reached here
			return errors.New("not of this machine")
		}
		return nil
	}
	plain := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	for _, s := range spellings() {
		if s.ip != netip.MustParseAddr(victims[0]) {
			continue
		}
		if res, err := plain.Get("http://" + s.host + ":" + port + "/"); err == nil {
			_ = res.Body.Close()
		}
	}
	if hits.Load() < 10 {
		t.Errorf("an unguarded client connected only %d times", hits.Load())
	}
	t.Logf("an unguarded client connected %d times", hits.Load())
}

// askPatiently sends a request, and repeats it if the name was not resolved in time.
func askPatiently(h *ServerClient, base *url.URL) (err error) {
	for range 10 {
		_, _, err = ask(h, "POST", base.String(), "x", Limits{})
		if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() {
			break
		}
	}
	return err
}

// TestSpellingsAsBase uses each form as the configured URL. Names resolve to the canary.
func TestSpellingsAsBase(t *testing.T) {
	port, hits := canary(t)
	for _, s := range spellings() {
		for _, scheme := range []string{"http://", "https://"} {
			base, err := url.Parse(scheme + s.host + ":" + port + "/mcp")
			if err != nil {
				continue
			}
			h, err := NewServerClient(base, Network{}, 1)
			if err != nil {
				continue
			}
			h.resolver = leadingTo(always("127.0.0.1", "::1"))
			if err := askPatiently(h, base); err == nil {
				t.Errorf("%s was reached", base)
			} else if _, ok := errors.AsType[*NotPublicError](err); !ok {
				t.Errorf("%s: %v", base, err)
			}
			h.Close()
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the canary was hit %d times", hits.Load())
	}
}

// TestSpellingsAsRedirect makes a server redirect to each form, including on its own port.
func TestSpellingsAsRedirect(t *testing.T) {
	port, hits := canary(t)
	var mu sync.Mutex
	var location string
	var status int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/canary" {
			hits.Add(1)
		}
		mu.Lock()
		defer mu.Unlock()
		w.Header()["Location"] = []string{location}
		w.WriteHeader(status)
	}))
	defer server.Close()
	h, err := NewServerClient(mustParse(t, server.URL), Network{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.resolver = leadingTo(always("127.0.0.1", "::1"))
	for i, s := range append(spellings(), spelling{host: "127.0.0.1"}, spelling{host: "[::1]"}, spelling{host: "localhost"}) {
		own := ":" + mustParse(t, server.URL).Port()
		for _, to := range []string{"http://" + s.host + ":" + port + "/canary", "//" + s.host + own + "/canary", "https://" + s.host + own + "/canary"} {
			if s.host == "127.0.0.1" && strings.HasPrefix(to, "//") {
				continue // this is the server itself
			}
			mu.Lock()
			location, status = to, []int{307, 308, 301}[i%3]
			mu.Unlock()
			if _, _, err := ask(h, http.MethodGet, server.URL, "", Limits{}); err == nil {
				t.Errorf("%s was reached", to)
			}
		}
	}
	if hits.Load() != 0 {
		t.Errorf("the canary was hit %d times", hits.Load())
	}
}

// TestSpellingsAsAnswer makes a valid name resolve to each address, alone and together with others.
func TestSpellingsAsAnswer(t *testing.T) {
	port, hits := canary(t)
	base := mustParse(t, "http://mcp.example.com:"+port)
	done := map[netip.Addr]bool{}
	try := func(ip netip.Addr) {
		if done[ip] {
			return
		}
		done[ip] = true
		for _, others := range [][]netip.Addr{{ip}, {ip, netip.MustParseAddr("10.0.0.1"), netip.IPv6Loopback()}} {
			h, err := NewServerClient(base, Network{}, 1)
			if err != nil {
				t.Fatal(err)
			}
			h.resolver = leadingTo(func() []netip.Addr { return others })
			err = askPatiently(h, base)
			if _, ok := errors.AsType[*NotPublicError](err); !ok {
				t.Errorf("%s: %v", ip, err)
			}
			h.Close()
		}
	}
	for _, s := range spellings() {
		try(s.ip)
		if ip, err := netip.ParseAddr(strings.Trim(s.host, "[]")); err == nil {
			try(ip)
		}
	}
	for i := range 300 {
		try(netip.AddrFrom4([4]byte{127, byte(i), byte(i >> 4), byte(i * 7)}))
	}
	if hits.Load() != 0 {
		t.Errorf("the canary was hit %d times", hits.Load())
	}
	t.Logf("%d addresses", len(done))
}

// TestRebinding changes the DNS response after the first connection.
func TestRebinding(t *testing.T) {
	port, hits := canary(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("there is no second address to listen on")
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	base := mustParse(t, "http://mcp.example.com:"+port)
	h, err := NewServerClient(base, Network{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var moved atomic.Bool
	h.resolver = leadingTo(func() []netip.Addr {
		if moved.Load() {
			return always("127.0.0.1")()
		}
		return always("127.0.0.2")()
	})
	if err := askPatiently(h, base); err != nil {
		t.Fatal(err)
	}
	moved.Store(true)
	h.Close()
	if _, _, err := ask(h, "POST", base.String(), "x", Limits{}); err == nil {
		t.Error("it followed the name")
	}
	if hits.Load() != 0 {
		t.Errorf("the canary was hit %d times", hits.Load())
	}
}

func TestIsPublic(t *testing.T) {
	for _, ip := range []string{"8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.1", "172.32.0.1", "192.0.1.1", "11.0.0.1", "2606:4700::1111", "2a00:1450::1", "2400:cb00::1", "::ffff:8.8.8.8"} {
		if !isPublic(netip.MustParseAddr(ip)) {
			t.Errorf("%s is public", ip)
		}
	}
	for _, ip := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "127.0.0.1", "100.64.0.1", "169.254.1.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.19.0.1",
		"198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1",
		"2001:db8::1", "2001:db8::1%eth0", "2002:7f00:1::", "2002:7f00:1::%lo", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "4000::1",
	} {
		if isPublic(netip.MustParseAddr(ip)) {
			t.Errorf("%s is not public", ip)
		}
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, _ := netip.ParseAddr(host)
	return err == nil && (host == localhost || ip.IsLoopback())
}
