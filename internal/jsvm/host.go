package jsvm

import (
	"crypto/hmac"
	"crypto/md5"  //nolint:gosec // scripts may need old checksums
	"crypto/sha1" //nolint:gosec // scripts may need old checksums
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // scripts can format times in any time zone on any machine
)

// maxAnswer is the maximum size in bytes of a single value from a script: a result, a host request
// or a log line.
const maxAnswer = 16 << 20

// Limits on a run's log.
const (
	maxLines = 1000
	maxLine  = 16 << 10  // bytes per line
	maxLog   = 256 << 10 // bytes in all lines
)

// hostCall is the only host function. Its arguments are an operation and the operation's arguments,
// all strings or numbers. It returns the address of a box. An error is returned as a string that
// starts with a zero byte; the runtime throws it, because a host function must not run script code.
func (v *vm) hostCall(argc, argv uint32) uint64 {
	v.interrupted() // a script that mostly calls the host executes few steps of its own
	args := make([]string, argc)
	for i := range args {
		box := uint64(v.uint32At(uint64(argv) + uint64(4*i)))
		if v.callInner(v.inner.isString, box) == 0 && v.callInner(v.inner.isNumber, box) == 0 {
			return v.answer("\x00a host operation accepts only strings and numbers")
		}
		args[i] = v.innerText(box)
	}
	f, ok := operations[first(args)]
	if !ok {
		return v.answer("\x00unknown host operation")
	}
	if want := f.args; len(args)-1 != want {
		return v.answer(fmt.Sprintf("\x00host operation %s takes %d arguments", args[0], want))
	}
	answer, err := f.do(v.run, args[1:])
	if err != nil {
		return v.answer("\x00" + err.Error())
	}
	if answer == nil {
		return v.callInner(v.inner.dup, v.engine.entry.undefined)
	}
	return v.answer(*answer)
}

// innerText converts a string or number argument to a string.
func (v *vm) innerText(box uint64) string {
	length := v.engine.entry.length
	at := v.callInner(v.inner.getString, box, length)
	if at == 0 {
		panic(errNoMemory)
	}
	s := v.textAt(at, v.uint32At(length))
	v.callInner(v.inner.freeString, at)
	return s
}

// answer creates a string in the script's memory. If there is no room, it fails the VM.
func (v *vm) answer(s string) uint64 {
	at := v.callInner(v.inner.malloc, uint64(len(s)+1))
	if at == 0 {
		panic(errNoMemory)
	}
	copy(v.memory.reserved[at:], s)
	box := v.callInner(v.inner.newString, at, uint64(len(s)))
	v.callInner(v.inner.free, at)
	return box
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// operation is an operation that the host provides to the runtime.
type operation struct {
	args int
	do   func(r *execution, args []string) (answer *string, err error)
}

var operations = map[string]operation{
	"log":     {2, (*execution).log},
	"random":  {1, (*execution).random},
	"digest":  {2, (*execution).digest},
	"hmac":    {3, (*execution).hmac},
	"zone":    {2, (*execution).zone},
	"timer":   {2, (*execution).timer},
	"untimer": {1, (*execution).untimer},
	"ask":     {2, (*execution).ask},
	"post":    {3, (*execution).post},
	"tell":    {2, (*execution).tell},
	"done":    {1, (*execution).done},
}

func (r *execution) log(args []string) (*string, error) {
	if r.out == nil || r.logFull {
		return nil, nil
	}
	line := args[1][:min(len(args[1]), maxLine)]
	r.lines++
	r.logged += len(line)
	if r.logFull = r.lines >= maxLines || r.logged > maxLog; r.logFull {
		r.out.log("warn", fmt.Sprintf("a call can log at most %d lines or %d KiB; the rest is dropped", maxLines-1, maxLog>>10))
		return nil, nil
	}
	r.out.log(args[0], line)
	return nil, nil
}

func (r *execution) random(args []string) (*string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > 64<<10 {
		return nil, fmt.Errorf("at most %d random bytes can be requested at once", 64<<10)
	}
	buf := make([]byte, n)
	r.clock.random(buf)
	return encoded(buf), nil
}

func encoded(data []byte) *string {
	s := base64.StdEncoding.EncodeToString(data)
	return &s
}

var hashes = map[string]func() hash.Hash{"md5": md5.New, "sha-1": sha1.New, "sha-256": sha256.New, "sha-384": sha512.New384, "sha-512": sha512.New}

func newHash(name string) (func() hash.Hash, error) {
	h, ok := hashes[strings.ToLower(name)]
	if !ok {
		return nil, fmt.Errorf("unknown digest %s", name)
	}
	return h, nil
}

func (r *execution) digest(args []string) (*string, error) {
	h, err := newHash(args[0])
	if err != nil {
		return nil, err
	}
	return sum(h(), args[1])
}

func (r *execution) hmac(args []string) (*string, error) {
	h, err := newHash(args[0])
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(args[1])
	if err != nil {
		return nil, err
	}
	return sum(hmac.New(h, key), args[2])
}

func sum(h hash.Hash, data string) (*string, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, err
	}
	h.Write(raw)
	return encoded(h.Sum(nil)), nil
}

func (r *execution) zone(args []string) (*string, error) {
	ms, err := strconv.ParseFloat(args[1], 64)
	if err != nil || ms != ms || ms < -1e17 || ms > 1e17 {
		return nil, fmt.Errorf("%s is not a valid time", args[1])
	}
	if args[0] == "" || strings.EqualFold(args[0], "local") {
		return nil, fmt.Errorf("unknown time zone %q", args[0])
	}
	location, err := time.LoadLocation(args[0])
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q", args[0])
	}
	name, offset := time.UnixMilli(int64(ms)).In(location).Zone()
	data, err := json.Marshal(map[string]any{"offset": offset, "abbreviation": name})
	s := string(data)
	return &s, err
}

func (r *execution) timer(args []string) (*string, error) {
	id, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	ms, _ := strconv.ParseFloat(args[1], 64) // an invalid delay counts as zero
	if ms != ms {
		ms = 0
	}
	if !r.timers.add(id, ms, r.clock.virtual) {
		return nil, fmt.Errorf("more than %d timers", maxTimers)
	}
	return nil, nil
}

func (r *execution) untimer(args []string) (*string, error) {
	if id, err := strconv.Atoi(args[0]); err == nil {
		r.timers.remove(id)
	}
	return nil, nil
}

func (r *execution) ask(args []string) (*string, error) {
	if r.out == nil {
		return nil, errLoading
	}
	if len(args[1]) > maxAnswer {
		return nil, errTooLarge
	}
	answer, err := r.out.ask(r, args[0], args[1])
	return &answer, err
}

// tell sends a notification to the host. Notifications have the same limits as the log; excess
// notifications are dropped.
func (r *execution) tell(args []string) (*string, error) {
	if r.lines++; r.out != nil && r.lines <= maxLines && len(args[1]) <= 16<<10 {
		r.out.tell(args[0], args[1])
	}
	return nil, nil
}

// maxPosts is the maximum number of concurrent host requests per run.
const maxPosts = 256

func (r *execution) post(args []string) (*string, error) {
	if r.out == nil {
		return nil, errLoading
	}
	id, err := strconv.Atoi(args[0])
	switch {
	case err != nil:
		return nil, err
	case r.posts >= maxPosts:
		return nil, fmt.Errorf("more than %d concurrent requests", maxPosts)
	case len(args[2]) > maxAnswer:
		return nil, errTooLarge
	}
	r.posts++
	r.out.post(id, args[1], args[2])
	return nil, nil
}

var (
	errTooLarge = fmt.Errorf("it exceeds %d MiB", maxAnswer>>20)
	errLoading  = fmt.Errorf("a module cannot use the network, files, the environment or other tools while it loads; use them inside the function")
)

func (r *execution) done(args []string) (*string, error) {
	if len(args[0]) > maxAnswer {
		args[0] = `{"error":{"name":"RangeError","message":"the result is too large"}}`
	}
	r.answer = &args[0]
	return nil, nil
}
