package basics_test

import (
	"regexp"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/toolyardtest"
)

func TestTools(t *testing.T) {
	for _, tt := range []struct {
		tool *toolyard.Tool
		args string
		want string
		fail bool
	}{
		{basics.Hello, `{"name":"Ann"}`, `^Hello, Ann!$`, false},
		{basics.Hello, `{"name":"Ann","greeting":"Hi"}`, `^Hi, Ann!$`, false},
		{basics.Calculator, `{"operation":"add","a":2,"b":3}`, `^5$`, false},
		{basics.Calculator, `{"operation":"subtract","a":2,"b":3}`, `^-1$`, false},
		{basics.Calculator, `{"operation":"multiply","a":2,"b":3.5}`, `^7$`, false},
		{basics.Calculator, `{"operation":"divide","a":1,"b":4}`, `^0.25$`, false},
		{basics.Calculator, `{"operation":"power","a":2,"b":10}`, `^1024$`, false},
		{basics.Calculator, `{"operation":"remainder","a":7,"b":4}`, `^3$`, false},
		{basics.Calculator, `{"operation":"divide","a":1,"b":0}`, `Division by zero`, true},
		{basics.Calculator, `{"operation":"power","a":10,"b":999}`, `not a finite number`, true},
		{basics.Timestamp, `{}`, `^2026-01-02T03:04:05Z$`, false},
		{basics.Timestamp, `{"timezone":"Europe/Berlin"}`, `^2026-01-02T04:04:05\+01:00$`, false},
		{basics.Timestamp, `{"format":"unix"}`, `^1767323045$`, false},
		{basics.Timestamp, `{"format":"human"}`, `^Friday, 2 January 2026, 03:04:05 UTC$`, false},
		{basics.Timestamp, `{"format":"relative"}`, `^now$`, false},
		{basics.Timestamp, `{"format":"relative","time":"2026-01-02T02:04:05Z"}`, `^1 hour ago$`, false},
		{basics.Timestamp, `{"format":"relative","time":"2026-01-05T03:04:05Z"}`, `^in 3 days$`, false},
		{basics.Timestamp, `{"format":"relative","time":"2026-01-02T03:04:15Z"}`, `^in 10 seconds$`, false},
		{basics.Timestamp, `{"format":"relative","time":"2026-01-02T03:02:05Z"}`, `^2 minutes ago$`, false},
		{basics.Timestamp, `{"timezone":"Mars/Base"}`, `not a time zone`, true},
		{basics.TextUtil, `{"text":"abc","case":"reverse"}`, `^cba$`, false},
		{basics.TextUtil, `{"text":"abc","case":"reverse","repeat":2}`, `^abc$`, false},
		{basics.TextUtil, `{"text":"héllo wORLD","case":"title"}`, `^Héllo World$`, false},
		{basics.TextUtil, `{"text":"aB","case":"upper"}`, `^AB$`, false},
		{basics.TextUtil, `{"text":"aB","case":"lower"}`, `^ab$`, false},
		{basics.Random, `{"type":"number","min":3,"max":3}`, `^3$`, false},
		{basics.Random, `{"type":"number","min":-1,"max":9}`, `^(-1|[0-9])$`, false},
		{basics.Random, `{"type":"number"}`, `^[0-9]{1,3}$`, false},
		{basics.Random, `{"type":"number","min":2,"max":1}`, `min \(2\)`, true},
		{basics.Random, `{"type":"string","length":8}`, `^[A-Za-z0-9]{8}$`, false},
		{basics.Random, `{"type":"uuid"}`, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, false},
		{basics.Random, `{"type":"boolean"}`, `^(true|false)$`, false},
	} {
		res, err := toolyardtest.Call(t, tt.tool, tt.args, &toolyardtest.Options{Mode: toolyard.Read})
		if err != nil || res.IsError != tt.fail || !regexp.MustCompile(tt.want).MatchString(toolyardtest.Text(res)) {
			t.Errorf("%s %s: %q %v", tt.tool.Name, tt.args, toolyardtest.Text(res), err)
		}
	}
	if _, err := toolyardtest.Call(t, basics.TextUtil, `{"text":"a","case":"upper","repeat":0}`, nil); toolyard.AsError(err).Code != toolyard.Invalid {
		t.Errorf("repeat 0: %v", err)
	}
}

func TestDefinitions(t *testing.T) { toolyardtest.Golden(t, basics.Tools()...) }
