{{- /* The namespace of the operator: that of the release, unless it is default, which is no place for an operator. */ -}}
{{- define "millwright.namespace" -}}
{{- default (ternary "millwright-system" .Release.Namespace (eq .Release.Namespace "default")) .Values.namespace -}}
{{- end }}

{{- /* The image of all Deployments. */ -}}
{{- define "millwright.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}
