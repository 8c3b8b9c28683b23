package homeassistant

import (
	"context"
	"regexp"
	"strings"

	"github.com/toolyard/toolyard"
)

type notifyArgs struct {
	Target  string `json:"target" minLength:"1" maxLength:"255" doc:"Where to send the notification: a notification service such as mobile_app_phone, or the id of a notify entity"`
	Message string `json:"message" minLength:"1" maxLength:"1000" doc:"Text of the notification"`
	Title   string `json:"title,omitempty" maxLength:"200" doc:"Title of the notification"`
}

type notifyResult struct {
	Sent bool `json:"sent"`
}

// phoneCommands matches messages that Home Assistant's phone apps execute instead of showing.
var phoneCommands = regexp.MustCompile(`^(command_\w*|request_location_update|clear_notification|clear_badge|delete_alert|remove_channel|update_complications|update_widgets|TTS)$`)

var sendNotification = toolyard.Define(writeSpec("send_notification", "Sends a notification to a phone, or to another notification target in the home."),
	func(ctx context.Context, c *toolyard.Call, in notifyArgs) (notifyResult, error) {
		ctl, v, err := controlsOf(ctx, c)
		if err != nil {
			return notifyResult{}, err
		}
		if phoneCommands.MatchString(strings.TrimSpace(in.Message)) {
			return notifyResult{}, toolyard.Errorf(toolyard.Invalid, "Phones interpret the message %q as a command. Use another message.", in.Message)
		}
		service, target, err := v.notifyTarget(ctx, in.Target)
		if err != nil {
			return notifyResult{}, err
		}
		data := map[string]any{"message": in.Message}
		if in.Title != "" {
			data["title"] = in.Title
		}
		if err := ctl.call(ctx, "notify", service, data, target); err != nil {
			return notifyResult{}, writeFailure(err)
		}
		return notifyResult{Sent: true}, nil
	})

// notifyTarget returns the service that sends a notification and, if the target is an entity, the
// target.
func (v *view) notifyTarget(ctx context.Context, name string) (service string, target map[string]any, err error) {
	name = strings.TrimPrefix(name, "notify.")
	if e := v.Entity("notify." + name); v.sees(e) {
		return "send_message", map[string]any{"entity_id": []string{e.ID}}, nil
	}
	known, err := v.home.client.Services(ctx, "notify")
	if err != nil {
		return "", nil, failureOf(err)
	}
	var targets []string
	for _, s := range known {
		if s == "send_message" || matchesAny(v.home.policy.deny, "notify."+s) {
			continue
		}
		if s == name {
			return s, nil, nil
		}
		targets = append(targets, s)
	}
	if len(targets) <= maxNear {
		return "", nil, toolyard.Errorf(toolyard.NotFound, "Unknown notification target %q. Available targets: %s.", printable(name, 80), strings.Join(targets, ", "))
	}
	return "", nil, unknown("notification target", name, targets)
}
