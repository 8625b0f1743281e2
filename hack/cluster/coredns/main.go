// Command coredns is CoreDNS with the plugins that the DNS of a cluster needs, and no others.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	// The order in which a query passes through them.
	dnsserver.Directives = []string{"errors", "health", "ready", "template", "kubernetes"}
}

func main() { coremain.Run() }
