{{- /* Not for other charts: what the drivers' names and paths come to. */}}

{{- define "csi-node-driver-registrar.kubeletRoot" -}}
{{ clean .kubeletRoot }}
{{- end }}

{{- /*
The drivers of the values given, with all that follows from a driver's name and place in the list:
one driver is at /csi, as everywhere; of several, each has a folder and a container of its own.
*/}}
{{- define "csi-node-driver-registrar.drivers" -}}
{{- if not .drivers }}
{{- fail "no driver is given: set drivers[0].name to the name that your driver answers in GetPluginInfo" }}
{{- end }}
{{- $values := . -}}
{{- range $index, $driver := .drivers }}
{{- $below := default (printf "plugins/%s/csi.sock" $driver.name) $driver.socketPath }}
{{- $socket := printf "%s/%s" (include "csi-node-driver-registrar.kubeletRoot" $values) $below }}
{{- $number := ternary (printf "-%d" (add1 $index)) "" (gt (len $values.drivers) 1) }}
{{- $mountPath := printf "/csi%s" $number }}
- name: {{ $driver.name | quote }}
  hostSocket: {{ $socket | quote }}
  hostFolder: {{ dir $socket | quote }}
  mountPath: {{ $mountPath | quote }}
  csiAddress: {{ printf "%s/%s" $mountPath (base $socket) | quote }}
  volume: plugin-dir{{ $number }}
  container: driver{{ $number }}
{{- end }}
{{- end }}

{{- /* The one driver that a template is asked about. */}}
{{- define "csi-node-driver-registrar.driver" -}}
{{- $drivers := include "csi-node-driver-registrar.drivers" .values | fromYamlArray -}}
{{- $wanted := default (first $drivers).name .driver -}}
{{- $names := list -}}
{{- range $drivers }}
{{- $names = append $names .name }}
{{- if eq .name $wanted }}
{{- toYaml . }}
{{- end }}
{{- end }}
{{- if not (has $wanted $names) }}
{{- fail (printf "%s is none of the drivers, which are %s" $wanted (join ", " $names)) }}
{{- end }}
{{- end }}

{{- define "csi-node-driver-registrar.image" -}}
{{ .repository }}:{{ .tag }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}

{{- /*
privileged excludes allowPrivilegeEscalation: false, so that one goes with it. The API server
refuses the two together.
*/}}
{{- define "csi-node-driver-registrar.securityContext" -}}
{{- if .privileged }}
{{- toYaml (merge (dict "privileged" true) (omit .securityContext "allowPrivilegeEscalation")) }}
{{- else }}
{{- toYaml .securityContext }}
{{- end }}
{{- end }}

{{- /*
The drivers' own containers: what the values say of each, and what every driver needs beside it.
Of lists only volumeMounts is added to; anything else that is given stands as it is.
*/}}
{{- define "csi-node-driver-registrar.driverContainers" -}}
{{- $values := . -}}
{{- $containers := list -}}
{{- range $index, $driver := include "csi-node-driver-registrar.drivers" . | fromYamlArray }}
{{- $given := default dict (index $values.drivers $index).container }}
{{- if not $given.image }}
{{- fail (printf "drivers[%d].container.image is empty: set it to the image of %s" $index $driver.name) }}
{{- end }}
{{- $asked := dict "values" $values "driver" $driver.name }}
{{- $own := dict
      "name" $driver.container
      "livenessProbe" (include "csi-node-driver-registrar.driverLivenessProbe" $asked | fromYaml)
      "securityContext" (dict "privileged" true)
      "terminationMessagePolicy" "FallbackToLogsOnError" }}
{{- $kubeletRoot := include "csi-node-driver-registrar.kubeletRoot" $values }}
{{- $mounts := include "csi-node-driver-registrar.driverVolumeMount" $asked | fromYamlArray }}
{{- $mounts = append $mounts (dict "name" "kubelet-dir" "mountPath" $kubeletRoot "mountPropagation" "Bidirectional") }}
{{- $mounts = concat $mounts (default list $given.volumeMounts) }}
{{- range $field, $value := $own }}
{{- if not (hasKey $given $field) }}
{{- $given = set (deepCopy $given) $field $value }}
{{- end }}
{{- end }}
{{- $containers = append $containers (set (deepCopy $given) "volumeMounts" $mounts) }}
{{- end }}
{{- with $containers }}
{{- toYaml . }}
{{- end }}
{{- end }}
