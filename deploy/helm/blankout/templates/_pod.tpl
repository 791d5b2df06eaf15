{{/* labels of an object: a dict of the release and, of pods, the component */}}
{{- define "blankout.labels" -}}
app.kubernetes.io/name: blankout
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* pod is the template of the learner's and the followers' pods */}}
{{- define "blankout.pod" -}}
metadata:
  labels: {{- include "blankout.labels" . | nindent 4 }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "8642"
    # A changed configuration is a new pod.
    checksum/config: {{ tpl .values.config .root | sha256sum }}
spec:
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  automountServiceAccountToken: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    {{- if .volume }}
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: blankout
      image: {{ .root.Values.image | quote }}
      args: {{ .args | toJson }}
      ports:
        - {name: http, containerPort: 8642}
      env:
        - {name: GOMEMLIMIT, value: {{ .values.gomemlimit | quote }}}
      {{- with .root.Values.secrets }}
      envFrom:
        {{- range . }}
        - secretRef: {name: {{ . | quote }}}
        {{- end }}
      {{- end }}
      resources: {{- toYaml .values.resources | nindent 8 }}
      # The program runs: only a hang restarts it.
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/blankout, readOnly: true}
        {{- if .volume }}
        - {name: data, mountPath: /data}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ .config }}}
{{- end -}}
