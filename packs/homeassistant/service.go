package homeassistant

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

type serviceArgs struct {
	Service string         `json:"service" pattern:"^[a-z0-9_]+\\.[a-z0-9_]+$" doc:"The Home Assistant service to call, such as vacuum.start"`
	IDs     []string       `json:"ids,omitempty" maxItems:"20" doc:"The devices that the service acts on, by entity id or name"`
	Data    map[string]any `json:"data,omitempty" doc:"Parameters of the service. Do not include the target: pass it in ids"`
}

// targetKeys are members of service data that select entities or contain codes. They are refused,
// because the target is checked separately and codes come from the configuration.
var targetKeys = []string{"entity_id", "device_id", "area_id", "floor_id", "label_id", "code"}

var callService = toolyard.Define(writeSpec("call_service", "Calls a Home Assistant service that the operator has allowed. Use it only if no other tool can do the job."),
	func(ctx context.Context, c *toolyard.Call, in serviceArgs) (confirmedResult, error) {
		ctl, v, err := controlsOf(ctx, c)
		if err != nil {
			return confirmedResult{}, err
		}
		domain, service, _ := strings.Cut(in.Service, ".")
		if err := ctl.checkService(&in, domain); err != nil {
			return confirmedResult{}, err
		}
		targets, err := v.findAll(in.IDs)
		if err != nil {
			return confirmedResult{}, err
		}
		if agreed, err := v.confirmService(ctx, c, in.Service, domain, targets); err != nil || agreed != accepted {
			return declined(agreed), err
		}
		data := make(map[string]any, len(in.Data)+1)
		maps.Copy(data, in.Data)
		affected := &reach{view: v, entities: make(map[*hass.Entity]bool)}
		var target map[string]any
		if len(targets) > 0 {
			ids := make([]string, 0, len(targets))
			for _, e := range targets {
				ids = append(ids, e.ID)
				affected.entities[e] = true
				if code := ctl.policy.codes[e.ID]; code != "" && len(targets) == 1 {
					data["code"] = code
				}
			}
			target = map[string]any{"entity_id": ids}
		}
		start := time.Now()
		if err := ctl.call(ctx, domain, service, data, target); err != nil {
			return confirmedResult{}, writeFailure(err)
		}
		return confirmedResult{"done", ctl.settle(ctx, v, affected, start)}, nil
	})

// checkService refuses services that are not allowed, and data that selects entities.
func (ctl *controls) checkService(in *serviceArgs, domain string) error {
	switch {
	case !matchesAny(ctl.policy.services, in.Service):
		return toolyard.Errorf(toolyard.PermissionDenied, "%s is not allowed. The configuration allows: %s.", in.Service, strings.Join(ctl.policy.services, ", "))
	case slices.Contains([]string{"scene", "script", "automation"}, domain):
		return toolyard.Errorf(toolyard.PermissionDenied, "Use activate_scene, run_script or trigger_automation instead of %s.", in.Service)
	}
	for _, key := range targetKeys {
		if in.Data[key] != nil {
			return toolyard.Errorf(toolyard.Invalid, "data.%s is not allowed. To choose the devices, set ids. Toolyard takes codes from the configuration.", key)
		}
	}
	return nil
}

// confirmService asks the user if a target requires confirmation. A service in a sensitive domain
// requires it even if there is no target.
func (v *view) confirmService(ctx context.Context, c *toolyard.Call, name, domain string, targets []*hass.Entity) (string, error) {
	var sensitive []*hass.Entity
	for _, e := range targets {
		if err := v.checkDenied(e); err != nil {
			return "", err
		}
		if v.isSensitive(e) {
			sensitive = append(sensitive, e)
		}
	}
	isSensitiveDomain := v.home.policy.isSensitive(&hass.Entity{ID: name, Domain: domain, State: &hass.State{}})
	if len(sensitive) == 0 && !isSensitiveDomain {
		return accepted, nil
	}
	message := "Call " + name + "?" + requestedBy(c)
	if len(sensitive) > 0 {
		message = v.question(c, name+" on", sensitive)
	}
	reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{Key: "confirm", Message: message, Bind: bindTo(name, sensitive)})
	return reply.Action, err
}
