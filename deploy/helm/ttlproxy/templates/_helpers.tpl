{{- define "ttlproxy.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ttlproxy.fullname" -}}
{{- $name := include "ttlproxy.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- default $both .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ttlproxy.selector" -}}
app.kubernetes.io/name: {{ include "ttlproxy.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ttlproxy.labels" -}}
{{ include "ttlproxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "ttlproxy.serviceAccountName" -}}
{{- default (ternary (include "ttlproxy.fullname" .) "" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* A setting's value as the proxy reads it. YAML reads yes as true, and 16777216 as 1.6777216e+07. */}}
{{- define "ttlproxy.text" -}}
{{- if kindIs "bool" . -}}{{ ternary "yes" "no" . }}
{{- else if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}
{{- else -}}{{ . }}
{{- end -}}
{{- end -}}

{{/* All settings, as JSON: name -> text. Ports and times follow from this table alone. */}}
{{- define "ttlproxy.settings" -}}
{{- $settings := dict "TTLPROXY_UPSTREAM" .Values.upstream -}}
{{- $address := printf "%s.%s:%v" (include "ttlproxy.fullname" .) .Release.Namespace .Values.service.port -}}
{{- $_ := set $settings "TTLPROXY_CLUSTER_ANNOUNCE" $address -}}
{{- if .Values.networkPolicy.enabled -}}
{{- $_ := set $settings "TTLPROXY_PROTECTED_MODE" "no" -}}{{/* the policy says who may connect */}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- if kindIs "invalid" $value -}}{{- $_ := unset $settings $name -}}
{{- else -}}{{- $_ := set $settings $name (include "ttlproxy.text" $value) -}}
{{- end -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* The port of an address that other pods can reach. Takes a dict of name and settings. */}}
{{- define "ttlproxy.port" -}}
{{- $address := get .settings .name | default "" -}}
{{- $is_local := regexMatch "^(127\\.|localhost:|\\[::1\\])" $address -}}
{{- if or $is_local (not (regexMatch "^(\\[[^\\]]+\\]|[^:\\[\\]]+):[1-9][0-9]*$" $address)) -}}
{{- fail (printf "settings.%s must be an address that other pods can reach, such as 0.0.0.0:6380, and is %q" .name $address) -}}
{{- end -}}
{{- regexFind "[0-9]+$" $address -}}
{{- end -}}

{{/* What clients connect to, as JSON: name, port in the pod, port in the Service. */}}
{{- define "ttlproxy.ports" -}}
{{- $settings := include "ttlproxy.settings" . | fromJson -}}
{{- $own := include "ttlproxy.port" (dict "name" "TTLPROXY_LISTEN" "settings" $settings) | int -}}
{{- $first := int .Values.service.port -}}
{{- $ports := list (dict "name" "redis" "containerPort" $own "port" $first) -}}
{{- if eq (get $settings "TTLPROXY_CLUSTER_VIEW") "nodes" -}}
{{- range $number := untilStep 1 (get $settings "TTLPROXY_CLUSTER_PORTS" | default "3" | int | add1 | int) 1 -}}
{{- $node := dict "name" (printf "node-%d" $number) "containerPort" (add $own $number) "port" (add $first $number) -}}
{{- $ports = append $ports $node -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/* The ports of Redis and of Sentinels that the URL names, or 6379 and 26379, as JSON. */}}
{{- define "ttlproxy.redisPorts" -}}
{{- $url := get (include "ttlproxy.settings" . | fromJson) "TTLPROXY_UPSTREAM" -}}
{{- $default := contains "sentinel" $url | ternary 26379 6379 -}}
{{- $ports := contains "sentinel" $url | ternary (list 6379) list -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "TTLPROXY_UPSTREAM" -}}{{- $ports = list 6379 26379 -}}{{- end -}}
{{- end -}}
{{- range regexFind "//[^/#]*" $url | splitList "@" | last | splitList "," -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | trimPrefix ":" | default $default | int) -}}
{{- end -}}
{{- range .Values.networkPolicy.redisPorts -}}{{- $ports = append $ports (int .) -}}{{- end -}}
{{- $ports | uniq | toJson -}}
{{- end -}}

{{/* How long a pod may take to end. */}}
{{- define "ttlproxy.graceSeconds" -}}
{{- $settings := include "ttlproxy.settings" . | fromJson -}}
{{- $least := get $settings "TTLPROXY_DRAIN_MIN" | default "0" -}}
{{- $drain := addf $least (get $settings "TTLPROXY_DRAIN_MAX" | default "30") | ceil | int -}}
{{- $grace := .Values.terminationGracePeriodSeconds -}}
{{- if kindIs "invalid" $grace -}}{{ add $drain 10 }}
{{- else if lt (int $grace) $drain -}}
{{- fail (printf "terminationGracePeriodSeconds cuts clients off: TTLPROXY_DRAIN_MIN and TTLPROXY_DRAIN_MAX are %d seconds together" $drain) -}}
{{- else -}}{{ int $grace }}
{{- end -}}
{{- end -}}

{{/* The environment: each name once. */}}
{{- define "ttlproxy.env" -}}
{{- $settings := include "ttlproxy.settings" . | fromJson -}}
{{- $plain := deepCopy $settings -}}
{{- $seen := dict -}}
{{- range .Values.extraEnv -}}
{{- if hasKey $seen .name -}}{{- fail (printf "extraEnv has %s twice" .name) -}}{{- end -}}
{{- if has .name (list "TTLPROXY_LISTEN" "TTLPROXY_ADMIN" "TTLPROXY_CLUSTER_VIEW" "TTLPROXY_CLUSTER_PORTS" "TTLPROXY_DRAIN_MIN" "TTLPROXY_DRAIN_MAX") -}}
{{- fail (printf "%s must be in settings instead of extraEnv: ports and times follow from it" .name) -}}
{{- end -}}
{{- if hasKey . "value" -}}{{- $_ := set $plain .name .value -}}{{- end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- range $name, $value := $plain -}}
{{- if or (regexMatch "^TTLPROXY_.*_PASSWORD$" $name) (and (eq $name "TTLPROXY_UPSTREAM") (regexMatch "//[^@]*:[^@]*@" $value)) -}}
{{- fail (printf "a password is in %s, where everybody sees it who may read the pod: put it into a Secret, that into secrets, and TTLPROXY_UPSTREAM_PASSWORD_FILE: /run/secrets/SECRET/KEY into settings" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $settings -}}
{{- if not (hasKey $seen $name) }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end -}}
{{- end -}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end -}}
{{- end -}}
