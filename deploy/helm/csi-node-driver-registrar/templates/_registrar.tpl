{{- /*
What other charts may include. Each template takes a dict:

  values   the values of this chart: .Values in this chart itself,
           (index .Values "csi-node-driver-registrar") in a chart that depends on it
  driver   for those that are about one driver: its name; without it, the first of `drivers`

`merge` sets what the including chart works out for itself:

  {{- $registrar := merge
        (dict "kubeletRoot" .Values.kubeletDir "drivers" (list (dict "name" .Values.driverName)))
        (index .Values "csi-node-driver-registrar") }}
  {{- include "csi-node-driver-registrar.container" (dict "values" $registrar) | nindent 8 }}
*/}}

{{- /* The sidecar, as one item of a pod's list of containers. */}}
{{- define "csi-node-driver-registrar.container" -}}
{{- $registrar := .values.registrar -}}
{{- if and $registrar.localhostOnly (not .values.hostNetwork) }}
{{- fail "registrar.localhostOnly needs hostNetwork: in a network of its own, the pod's 127.0.0.1 is out of reach for kubelet's probes" }}
{{- end -}}
- name: {{ $registrar.name }}
  image: {{ include "csi-node-driver-registrar.image" $registrar.image | quote }}
  imagePullPolicy: {{ $registrar.image.pullPolicy }}
  args:
    {{- range include "csi-node-driver-registrar.drivers" .values | fromYamlArray }}
    - {{ printf "--csi-address=%s" .csiAddress | quote }}
    - {{ printf "--kubelet-registration-path=%s" .hostSocket | quote }}
    {{- end }}
    - {{ printf "--http-endpoint=%s:%v" (ternary "127.0.0.1" "" $registrar.localhostOnly) (int $registrar.port) | quote }}
    {{- with $registrar.timeout }}
    - {{ printf "--timeout=%s" . | quote }}
    {{- end }}
    {{- with $registrar.probeTimeout }}
    - {{ printf "--probe-timeout=%s" . | quote }}
    {{- end }}
    {{- with $registrar.onRegistrationFailure }}
    - {{ printf "--on-registration-failure=%s" . | quote }}
    {{- end }}
    {{- with $registrar.loggingFormat }}
    - {{ printf "--logging-format=%s" . | quote }}
    {{- end }}
    {{- with $registrar.verbosity }}
    - {{ printf "--v=%v" (int .) | quote }}
    {{- end }}
    {{- with $registrar.extraArgs }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $registrar.extraEnv }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: registrar
      containerPort: {{ int $registrar.port }}
      protocol: TCP
      {{- if $registrar.localhostOnly }}
      hostIP: 127.0.0.1
      {{- end }}
  {{- $paths := dict "startupProbe" "/livez" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
  {{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" }}
  {{ $probe }}:
    httpGet:
      {{- if $registrar.localhostOnly }}
      host: 127.0.0.1
      {{- end }}
      path: {{ get $paths $probe }}
      port: registrar
    {{- toYaml (get $registrar $probe) | nindent 4 }}
  {{- end }}
  resources:
    {{- toYaml $registrar.resources | nindent 4 }}
  securityContext:
    {{- include "csi-node-driver-registrar.securityContext" $registrar | nindent 4 }}
  terminationMessagePolicy: FallbackToLogsOnError
  volumeMounts:
    {{- range include "csi-node-driver-registrar.drivers" .values | fromYamlArray }}
    - name: {{ .volume }}
      mountPath: {{ .mountPath | quote }}
    {{- end }}
    - name: registration-dir
      mountPath: /registration
    {{- with $registrar.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* The volumes that the sidecar needs, as items of a pod's list of volumes. */}}
{{- define "csi-node-driver-registrar.volumes" -}}
# Of the type Directory: kubelet has made this folder if it is the right one.
- name: registration-dir
  hostPath:
    path: {{ printf "%s/plugins_registry" (include "csi-node-driver-registrar.kubeletRoot" .values) | quote }}
    type: Directory
{{- range include "csi-node-driver-registrar.drivers" .values | fromYamlArray }}
- name: {{ .volume }}
  hostPath:
    path: {{ .hostFolder | quote }}
    type: DirectoryOrCreate
{{- end }}
{{- end }}

{{- /* The mount of a driver's own folder, as an item of its container's list of volumeMounts. */}}
{{- define "csi-node-driver-registrar.driverVolumeMount" -}}
{{- $driver := include "csi-node-driver-registrar.driver" . | fromYaml -}}
- name: {{ $driver.volume }}
  mountPath: {{ $driver.mountPath | quote }}
{{- end }}

{{- /*
The livenessProbe of a driver's container: kubelet asks the sidecar whether the driver is well. The
port is a number, because kubelet looks for a name in the container that is probed alone.
*/}}
{{- define "csi-node-driver-registrar.driverLivenessProbe" -}}
{{- $driver := include "csi-node-driver-registrar.driver" . | fromYaml -}}
{{- $registrar := .values.registrar -}}
httpGet:
  {{- if $registrar.localhostOnly }}
  host: 127.0.0.1
  {{- end }}
  path: {{ printf "/healthz/csi-probe%s" (ternary (printf "?driver=%s" $driver.name) "" (gt (len .values.drivers) 1)) | quote }}
  port: {{ int $registrar.port }}
{{ toYaml $registrar.driverLivenessProbe }}
{{- end }}
