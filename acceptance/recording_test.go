package acceptance

import (
	"bytes"
	"encoding/xml"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var record = flag.Bool("recording", false, "write docs/pictures/recording.svg")

const recordingFile = "../docs/pictures/recording.svg"

// recorded lists the README's commands that the recording shows, by prefix, and how long the output
// of each is shown, in seconds.
var recorded = []struct {
	command string
	pause   float64
}{
	{"toolyard import mcp.json", 1.5}, {"toolyard check", 2.5}, {"toolyard why chat", 3}, {"toolyard install cursor", 2}, {"toolyard call split_bill", 2},
}

// checkRecording compares the recording with the output of the commands, or writes it.
func checkRecording(t *testing.T, steps []step, home string) {
	t.Helper()
	var shown []step
	for _, r := range recorded {
		for _, s := range steps {
			if strings.HasPrefix(s.command, r.command) {
				shown = append(shown, s)
			}
		}
	}
	if len(shown) != len(recorded) {
		t.Fatalf("the README has %d of the %d recorded commands", len(shown), len(recorded))
	}
	for i := range shown {
		shown[i].got = strings.ReplaceAll(shown[i].got, home, "~")
	}
	image := drawRecording(shown)
	if *record {
		if err := os.WriteFile(recordingFile, image, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(recordingFile)
	if err != nil || !bytes.Equal(committed, image) {
		t.Errorf("docs/pictures/recording.svg does not show what the commands print (%v): run make recording", err)
	}
	if len(image) > 100_000 {
		t.Errorf("the recording has %d bytes", len(image))
	}
}

// Sizes of the recording in pixels.
const (
	recordingWidth = 900
	recordingTop   = 66 // baseline of the first line
	lineHeight     = 21
)

// recording is a terminal whose lines appear one at a time.
type recording struct {
	lines  []recordedLine
	at     float64 // current time in seconds
	y      int
	styles strings.Builder
	body   strings.Builder
}

type recordedLine struct {
	from, typing float64 // when it appears, and how long typing takes
	chars        int     // number of characters in a typed line
}

// recordingIntro is how long the recording shows its last frame before it starts, in seconds, so
// that a reader who opens the page sees all commands at once.
const recordingIntro = 2.5

// drawRecording returns an animated SVG. If animations are off, or the reader prefers reduced
// motion, it shows the last frame.
func drawRecording(steps []step) []byte {
	r := &recording{at: recordingIntro + 0.6, y: recordingTop}
	for i, s := range steps {
		typing := 0.035 * float64(len([]rune(s.command)))
		r.line(`<tspan class="p">$ </tspan><tspan class="c">`+escapeXML(s.command)+"</tspan>", typing)
		r.lines[len(r.lines)-1].chars = len("$ ") + len([]rune(s.command))
		r.at += typing + 0.5
		for text := range strings.SplitSeq(strings.TrimSpace(s.got), "\n") {
			r.line(colorLine(text), 0)
			r.at += 0.06
		}
		r.at += recorded[i].pause
		r.y += lineHeight / 2
	}
	percent := func(at float64) float64 { return at / r.at * 100 }
	for i, l := range r.lines {
		if l.typing == 0 {
			fmt.Fprintf(&r.styles, "@keyframes k%d{%.2f%%{opacity:0}%.2f%%{opacity:1}}#l%d{animation:k%d %.1fs step-end infinite}\n", i, percent(recordingIntro), percent(l.from), i, i, r.at)
			continue
		}
		fmt.Fprintf(&r.styles, "@keyframes k%d{0%%{clip-path:inset(0);animation-timing-function:step-end}%.2f%%,%.2f%%{clip-path:inset(0 100%% 0 0);animation-timing-function:steps(%d)}%.2f%%,100%%{clip-path:inset(0)}}#l%d{animation:k%d %.1fs infinite}\n",
			i, percent(recordingIntro), percent(l.from), l.chars, percent(l.from+l.typing), i, i, r.at)
	}
	height := r.y + 6
	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="t">
<title id="t">A terminal: import MCP servers, check them, explain a hidden tool, connect Cursor, and call a tool</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c5cdd3;white-space:pre}
.p{fill:#8b969f}.c{fill:#fff}.g{fill:#58c98b}.r{fill:#f08a7e}.d{fill:#8b969f}
%s@media (prefers-reduced-motion:reduce){text{animation:none!important}}
</style>
<rect width="100%%" height="100%%" rx="10" fill="#0f1417"/>
<circle cx="22" cy="22" r="6" fill="#3a4249"/><circle cx="42" cy="22" r="6" fill="#3a4249"/><circle cx="62" cy="22" r="6" fill="#3a4249"/>
%s</svg>
`, recordingWidth, height, recordingWidth, height, r.styles.String(), r.body.String())
	return svg.Bytes()
}

// line adds a line that is typed over some seconds or appears at once.
func (r *recording) line(content string, typing float64) {
	fmt.Fprintf(&r.body, `<text id="l%d" x="22" y="%d">%s</text>`+"\n", len(r.lines), r.y, content)
	r.lines = append(r.lines, recordedLine{from: r.at, typing: typing})
	r.y += lineHeight
}

var good = regexp.MustCompile(`\b(ok|up)\b`)

// colorLine colors the important words.
func colorLine(text string) string {
	escaped := escapeXML(text)
	switch {
	case strings.HasPrefix(text, "✗"):
		return `<tspan class="r">✗</tspan>` + strings.TrimPrefix(escaped, "✗")
	case strings.HasPrefix(text, " "):
		return `<tspan class="d">` + escaped + "</tspan>"
	}
	return good.ReplaceAllString(escaped, `<tspan class="g">$1</tspan>`)
}

func escapeXML(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err) // writing to a buffer cannot fail
	}
	return strings.ReplaceAll(b.String(), "&#34;", `"`)
}
