#!/bin/sh
# Renders the chart into the plain manifests beside this file: make manifests. The argument is the program helm.
set -eu
helm=$1
cd "$(dirname "$0")"
render() {
    file=$1 remark=$2
    shift 2
    { echo "# Made by \`make manifests\` from deploy/helm/novikoff$remark"; "$helm" template novikoff ../helm/novikoff "$@"; } >"$file"
}
render novikoff.yaml ": change that."
render ingress.yaml ". An example: put in your own host." --show-only templates/ingress.yaml \
    --set ingress.enabled=true --set ingress.tlsSecret=novikoff-tls
render servicemonitor.yaml ". For the Prometheus operator." --show-only templates/servicemonitor.yaml \
    --set serviceMonitor.enabled=true
