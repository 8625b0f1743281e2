// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package immortalcontainer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"millwright.dev/pkg/apis/immortalcontainers/v1alpha1"
)

func TestLogsCarryNamesAndNeverWhatIsInTheObjects(t *testing.T) {
	const secret = "hunter2"
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: ContainerName, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}}}}}}
	template.Annotations = map[string]string{"token": secret}
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.Fail("create pods", times(2, apierrors.NewTimeoutError("slow", 1))...)
		stop, logged := a.operate()
		time.Sleep(time.Second)
		a.podBecomes(podReady)
		a.edit(func(c *v1alpha1.ImmortalContainer) { c.Spec.Image = "nginx:2" })
		a.kubelet(2)
		a.podFails()
		a.kubelet(2)
		a.wantAlive()
		stop()
		named := false
		for _, entry := range logged() {
			line := fmt.Sprint(entry.Message, entry.Err, entry.WithKVList, entry.ParameterKVList)
			if strings.Contains(line, secret) {
				t.Errorf("logged: %s", line)
			}
			named = named || strings.Contains(line, "default/x")
		}
		if !named {
			t.Error("the log does not name the object whose start failed")
		}
	}, withTemplate(template))
}
