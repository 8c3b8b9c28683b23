{{- define "toolyard.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "toolyard.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolyard.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "toolyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "toolyard.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "toolyard.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "toolyard.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The content of toolyard.yaml: the values, with the names of this service. */}}
{{- define "toolyard.config" -}}
{{- $name := include "toolyard.fullname" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if and .Values.ingress.enabled .Values.ingress.host -}}
{{- $hosts = append $hosts .Values.ingress.host -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "hosts" (concat (default list $config.hosts) $hosts | uniq) -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $config "metrics" (dict "listen" "0.0.0.0:9090") -}}
{{- end -}}
{{- if .Values.tls.existingSecret -}}
{{- $_ := set $config "tls" (dict "cert" "/tls/tls.crt" "key" "/tls/tls.key") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The store, for all commands of the container. */}}
{{- define "toolyard.env" -}}
{{- if .Values.database.existingSecret }}
- name: TOOLYARD_STORE
  valueFrom:
    secretKeyRef: {name: {{ .Values.database.existingSecret | quote }}, key: {{ .Values.database.key | quote }}}
{{- else }}
- {name: TOOLYARD_STORE, value: "sqlite:/toolyard/toolyard.db"}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "toolyard.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "toolyard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "toolyard.validate" -}}
{{- $several := or .Values.autoscaling.enabled (gt (int .Values.replicaCount) 1) -}}
{{- if and $several (not .Values.database.existingSecret) -}}
{{- fail "More than one replica needs a shared database: set database.existingSecret." -}}
{{- end -}}
{{- if and .Values.apply.enabled (not .Values.database.existingSecret) -}}
{{- fail "apply.enabled saves the configuration to the database: set database.existingSecret." -}}
{{- end -}}
{{- if and .Values.persistence.enabled .Values.database.existingSecret -}}
{{- fail "With a database, nothing is stored in a volume: set persistence.enabled to false." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "Requests for unknown host names are refused: set ingress.host." -}}
{{- end -}}
{{- end -}}
