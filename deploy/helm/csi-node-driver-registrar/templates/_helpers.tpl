{{- /* Not for other charts: the names and labels of this chart's own objects. */}}

{{- define "csi-node-driver-registrar.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains .Chart.Name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "csi-node-driver-registrar.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "csi-node-driver-registrar.labels" -}}
{{ include "csi-node-driver-registrar.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "csi-node-driver-registrar.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "csi-node-driver-registrar.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /*
"true" if an object is to be rendered. `create` is always, never or auto; auto means: unless this
chart is a dependency of another, and unless the cluster lacks the `api` that the object is of.
*/}}
{{- define "csi-node-driver-registrar.isCreated" -}}
{{- if eq .create "always" }}true
{{- else if and (eq .create "auto") .root.Chart.IsRoot }}
{{- if or (not .api) (.root.Capabilities.APIVersions.Has (default "" .api)) }}true{{ end }}
{{- end }}
{{- end }}

{{- /* The labels by which PodMonitor and NetworkPolicy find the pods. */}}
{{- define "csi-node-driver-registrar.podSelector" -}}
{{- if .Values.podSelector }}
{{- toYaml .Values.podSelector }}
{{- else if include "csi-node-driver-registrar.isCreated" (dict "create" .Values.daemonSet.create "root" .) }}
{{- include "csi-node-driver-registrar.selectorLabels" . }}
{{- else }}
{{- fail "podSelector is empty, and this chart renders no pods of its own: set it to labels that your pods carry" }}
{{- end }}
{{- end }}
