package script

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/sources/lint"
	"github.com/toolyard/toolyard/internal/trust/outbound"
)

// knownExports are the exports that have a meaning.
var knownExports = []string{
	"default", "name", "description", "inputSchema", "outputSchema", "title", "summary", "hint", "uiHint", "category",
	"modes", "timeout", "permissions", "shared", "_meta",
}

// toolMembers are other members of an AI SDK tool or its factory.
var toolMembers = []string{"parameters", "execute", "build"}

// metaExports are members of _meta that authors may export by mistake.
var metaExports = []string{"rateLimit", "pricing", "surface", "queryEligible", "latencyClass", "contextRequirements"}

// warn records exports that have no effect and missing grants.
func (l *loader) warn(f *file, said *declared, definitions []definition) {
	functions := make([]string, 0, len(definitions))
	for _, d := range definitions {
		functions = append(functions, d.Export)
	}
	for _, name := range said.Exports {
		if message := unknownExport(name); message != "" && !slices.Contains(functions, name) {
			f.warn(partFault(f, message, name))
		}
	}
	for _, d := range definitions {
		l.warnOfGrants(f, &d, said.Early)
		if near := lint.Category(d.Category); near != "" {
			f.warn(partFault(f, fmt.Sprintf("category %.80q is unknown%s", d.Category, spelling.Hint(near)), "category"))
		}
	}
}

// unknownExport suggests a correction for an export that has no effect. It returns "" if the export
// is known or resembles no known one.
func unknownExport(name string) string {
	if slices.Contains(knownExports, name) || slices.Contains(toolMembers, name) {
		return ""
	}
	if near := spelling.Nearest(name, metaExports); near != "" {
		return fmt.Sprintf("export %s has no effect: move it into _meta: export const _meta = { %s: … }", name, near)
	}
	if near := spelling.Nearest(name, knownExports); near != "" {
		return fmt.Sprintf("export %s has no effect%s", name, spelling.Hint(near))
	}
	return ""
}

// warnOfGrants records declared permissions that are not granted, and variables that are read
// during loading, when no variables are set.
func (l *loader) warnOfGrants(f *file, d *definition, early []string) {
	r := l.folder.reach(f.toolName(d), d.Permissions)
	if d.Permissions != nil {
		for _, m := range r.missing(d.Permissions) {
			fault := partFault(f, fmt.Sprintf("permissions.%s declares %s, which is not granted", m.kind, m.value), "permissions", m.kind)
			fault.Fix = "To grant it, add to toolyard.yaml: " + r.grantLine(m.kind, m.value)
			f.warn(fault)
		}
	}
	for _, name := range early {
		if declares(d.Permissions, name) || slices.ContainsFunc(r.granted.Env, func(p string) bool { return nameWithin(name, p) }) {
			fault := partFault(f, fmt.Sprintf("process.env.%s is read while the module loads, when no variables are set", name), "process.env."+name)
			fault.Fix = "Read it inside the function."
			f.warn(fault)
		}
	}
}

func declares(asked *Grant, name string) bool {
	return asked != nil && slices.ContainsFunc(asked.Env, func(p string) bool { return nameWithin(name, p) })
}

// missingGrant is a declared permission that is not granted.
type missingGrant struct{ kind, value string }

// missing returns the requested permissions that no grant covers.
func (r *reach) missing(asked *Grant) (list []missingGrant) {
	for _, host := range asked.Net {
		if !outbound.Allowlist(r.granted.Net).Overlaps(host) {
			list = append(list, missingGrant{"net", host})
		}
	}
	for _, path := range asked.Read {
		abs := absolute(r.base, path)
		if !slices.ContainsFunc(r.granted.Read, func(g string) bool { return pathWithin(abs, g) || pathWithin(g, abs) }) {
			list = append(list, missingGrant{"read", path})
		}
	}
	for _, name := range asked.Env {
		if !slices.ContainsFunc(r.granted.Env, func(g string) bool { return nameWithin(name, g) || nameWithin(g, name) }) {
			list = append(list, missingGrant{"env", name})
		}
	}
	return list
}

// grantLine returns the line in toolyard.yaml that would grant access.
func (r *reach) grantLine(kind, value string) string {
	if section, name, ok := strings.Cut(r.section, "."); ok {
		return fmt.Sprintf("%s: {%s: {grants: {%s: [%q]}}}", section, name, kind, value)
	}
	return fmt.Sprintf("scripts: {grants: {%s: {%s: [%q]}}}", r.tool, kind, value)
}

// unsetVariables reports granted variables that are not set.
func (f *Folder) unsetVariables() (problems []toolyard.Problem) {
	for _, tool := range slices.Sorted(maps.Keys(f.opts.Grants)) {
		for _, name := range f.opts.Grants[tool].Env {
			if _, set := f.opts.Getenv(name); set || strings.Contains(name, "*") {
				continue
			}
			subject := "scripts.grants." + tool + ".env"
			if f.kind != "" {
				subject = f.section() + ".grants.env"
			}
			problems = append(problems, toolyard.Problem{
				Source: "scripts", Subject: subject, Warning: true,
				Message: "variable " + name + " is granted, but it is not set", Fix: "Set it in Toolyard's environment, or remove the grant.",
			})
		}
	}
	return problems
}
