{{- define "larder.name" -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "larder.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "larder.labels" -}}
{{ include "larder.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "larder.config" -}}
[http]
listen = "[::]:8080"
cache = {{ .Values.cache | quote }}
{{- with .Values.origin }}
origin = {{ . | quote }}
{{- end }}
{{- if .Values.disk.enabled }}

[http.disk]
path = "/var/cache/larder/http"
capacity = {{ .Values.disk.capacity | quote }}
{{- end }}

[ndn]
{{- if .Values.ndn.enabled }}
tcp = "[::]:6363"
udp = "[::]:6363"
{{- else }}
enabled = false
{{- end }}

[admin]
listen = "[::]:8081"
{{- with .Values.config }}

{{ . }}
{{- end }}
{{- end }}

{{- /* A value as text. Helm reads numbers as floating point, and writes 1000000 as 1e+06. */}}
{{- define "larder.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end }}
