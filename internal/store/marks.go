package store

import (
	"strconv"
	"strings"
	"time"
)

// Limits on a call's marks.
const (
	maxMarks = 32
	maxStep  = 32 // bytes per name
)

// formatMarks encodes marks as "cap:0,run:2100", in microseconds. It omits invalid marks.
func formatMarks(marks []Mark) string {
	var b []byte
	n := 0
	for _, m := range marks {
		if !isStep(m.Step) || m.At < 0 || n == maxMarks {
			continue
		}
		if n++; n > 1 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(append(b, m.Step...), ':'), m.At.Microseconds(), 10)
	}
	return string(b)
}

// parseMarks decodes marks up to the first invalid one. The call is shown without the rest.
func parseMarks(text string) (marks []Mark) {
	for len(marks) < maxMarks && text != "" {
		var item string
		item, text, _ = strings.Cut(text, ",")
		step, at, _ := strings.Cut(item, ":")
		micros, err := strconv.ParseInt(at, 10, 64)
		if err != nil || micros < 0 || micros > maxMicros || !isStep(step) {
			return marks
		}
		marks = append(marks, Mark{Step: step, At: time.Duration(micros) * time.Microsecond})
	}
	return marks
}

// maxMicros is the maximum duration in microseconds.
const maxMicros = int64(1<<63-1) / int64(time.Microsecond)

// isStep reports whether name is a valid step name.
func isStep(name string) bool {
	return name != "" && len(name) <= maxStep && !strings.ContainsAny(name, ",:\x00") && strings.ToValidUTF8(name, "") == name
}
