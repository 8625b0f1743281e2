// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"millwright.dev/pkg/testing/patience"
)

const (
	// actionSamples is the folder with the samples of the guide.
	actionSamples = "../../../manifests/samples/actionset/"
	// shop is the namespace of the samples.
	shop = "shop"
)

// volume is a PersistentVolume for the claim, in a folder of this machine.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: CLAIM}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: NAMESPACE, name: CLAIM}
  hostPath: {path: FOLDER, type: Directory}
---
`

// startPostgres does what the image postgres does: at the first start it creates the database with the name and the password in the
// environment.
const startPostgres = `
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf %s "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  pg_ctl --wait --options="-c listen_addresses=" start
  createdb --username=postgres "$POSTGRES_DB"
  pg_ctl --wait stop
fi
exec postgres -c listen_addresses='*'
`

// actionSetTest is the test of one part of the guide, on the application of the samples.
type actionSetTest struct {
	*suite
	*testing.T
	// backups is the folder of this machine that the volume for backups is in.
	backups string
}

// testActionSet follows the guide with its samples.
func (s *suite) testActionSet(t *testing.T) {
	s.loadRoot(t, "postgres", v1.Config{Entrypoint: []string{"sh", "-ec", startPostgres}}, "postgres:17")
	a := &actionSetTest{suite: s, T: t, backups: t.TempDir()}
	a.installPostgres()
	a.sql("CREATE TABLE orders (item text)")
	a.sql("INSERT INTO orders VALUES ('a clock')")
	a.sample("postgres-blueprint.yaml")

	t.Run("backup and restore", a.inPart((*actionSetTest).testBackupAndRestore))
	t.Run("operator killed", a.inPart((*actionSetTest).testOperatorKilled))
	t.Run("quiesce", a.inPart((*actionSetTest).testQuiesce))
	t.Run("maintenance", a.inPart((*actionSetTest).testMaintenance))
	t.Run("batch", a.inPart((*actionSetTest).testBatch))
}

// inPart returns the part as a subtest with its own T.
func (a *actionSetTest) inPart(part func(*actionSetTest)) func(*testing.T) {
	return func(t *testing.T) { part(&actionSetTest{a.suite, t, a.backups}) }
}

// installPostgres installs PostgreSQL as described in the guide, and the volumes: nothing provisions volumes on this node.
func (a *actionSetTest) installPostgres() {
	a.Helper()
	a.Kubectl(a, "create", "namespace", shop)
	for claim, folder := range map[string]string{"data-postgres-0": a.TempDir(), "postgres-backups": a.backups} {
		if err := os.Chmod(folder, 0o777); err != nil {
			a.Fatal(err)
		}
		a.apply(a.T, volume, "CLAIM", claim, "NAMESPACE", shop, "FOLDER", folder)
		a.Cleanup(func() { a.Kubectl(a, "delete", "pv", claim, "--wait=false") })
	}
	a.Cleanup(func() {
		if a.Failed() {
			a.Log(a.Kubectl(a, "describe", "pods", "-n", shop))
			a.Log(a.Kubectl(a, "describe", "actionsets", "-n", systemNamespace))
		}
		a.Kubectl(a, "delete", "actionsets,blueprints", "--all", "-n", systemNamespace, patience.Timeout)
		a.Kubectl(a, "delete", "namespace", shop, patience.Timeout)
	})
	a.Kubectl(a, "apply", "-n", shop, "-f", actionSamples+"postgres.yaml")
	a.Kubectl(a, "create", "rolebinding", "millwright-actions", "-n", shop, "--clusterrole=millwright-actions-application",
		"--serviceaccount="+systemNamespace+":"+actions)
	a.Kubectl(a, "rollout", "status", "-n", shop, "statefulset/postgres", patience.Timeout)
}

// sample applies a sample of the guide after replacing the old strings by the new ones.
func (a *actionSetTest) sample(file string, oldAndNew ...string) {
	a.Helper()
	content, err := os.ReadFile(actionSamples + file)
	if err != nil {
		a.Fatal(err)
	}
	changed := filepath.Join(a.TempDir(), file)
	if err := os.WriteFile(changed, []byte(strings.NewReplacer(oldAndNew...).Replace(string(content))), 0o600); err != nil {
		a.Fatal(err)
	}
	a.Kubectl(a, "apply", "-n", systemNamespace, "-f", changed)
}

// ends waits until the ActionSet has the condition, and all objects of its run are removed.
func (a *actionSetTest) ends(name, condition string) {
	a.Helper()
	a.become(a.T, systemNamespace, "actionset/"+name, condition)
	uid := a.read(a.T, systemNamespace, "actionset/"+name, ".metadata.uid")
	eventually(a.T, "the objects of the run of "+name+" are removed", patience.Limit, func() bool {
		left := a.Kubectl(a, "get", "pods", "-n", shop, "-l", "millwright.dev/actionset-uid="+uid, "-o", "name")
		left += a.Kubectl(a, "get", "secrets", "-n", systemNamespace, "-l", "millwright.dev/actionset-uid="+uid, "-o", "name")
		return left == "" && a.read(a.T, systemNamespace, "actionset/"+name, ".metadata.finalizers") == ""
	})
}

// trySQL executes the statement in PostgreSQL, and returns what psql prints, errors included.
func (a *actionSetTest) trySQL(statement string) string {
	a.Helper()
	const do = `psql --username=postgres --dbname=shop --set=ON_ERROR_STOP=1 --quiet --tuples-only --no-align --command="$0" 2>&1 || true`
	return strings.TrimSpace(a.Kubectl(a, "exec", "-n", shop, "postgres-0", "--", "sh", "-c", do, statement))
}

// sql is trySQL for a statement that must succeed.
func (a *actionSetTest) sql(statement string) string {
	a.Helper()
	printed := a.trySQL(statement)
	if strings.Contains(printed, "ERROR") {
		a.Fatalf("%s: %s", statement, printed)
	}
	return printed
}

// loseTable drops the table.
func (a *actionSetTest) loseTable() {
	a.Helper()
	a.sql("DROP TABLE orders")
	contains(a.T, "SELECT", a.trySQL("SELECT item FROM orders"), `relation "orders" does not exist`)
}

// comeBack restores the dump of that name, and checks that the table has its row again.
func (a *actionSetTest) comeBack(dump string) {
	a.Helper()
	a.sample("postgres-restore-actionset.yaml", "postgres-restore", "restore-"+dump, "before-upgrade", dump)
	a.ends("restore-"+dump, "Complete")
	if got := a.sql("SELECT item FROM orders"); got != "a clock" {
		a.Errorf("got the rows %q, want %q", got, "a clock")
	}
}

func (a *actionSetTest) testBackupAndRestore() {
	a.sample("postgres-backup-actionset.yaml")
	a.ends("postgres-backup", "Complete")
	info, err := os.Stat(filepath.Join(a.backups, "before-upgrade.dump"))
	if err != nil {
		a.Fatal(err)
	}
	want := fmt.Sprintf(`{"bytes":"%d","path":"before-upgrade.dump"}`, info.Size())
	if got := a.read(a.T, systemNamespace, "actionset/postgres-backup", ".status.actions[0].artifacts.dump.keyValue"); got != want {
		a.Errorf("got the artifact %s, want %s", got, want)
	}
	contains(a.T, "kubectl describe", a.Kubectl(a, "describe", "actionset", "-n", systemNamespace, "postgres-backup"),
		"Executing action backup", "Executing phase dump", "Completed phase dump", "Updated ActionSet 'postgres-backup' Status->complete")
	a.loseTable()
	a.comeBack("before-upgrade")
}

// testOperatorKilled kills both replicas of the operator while the task of the backup runs. The task may end while no operator runs.
func (a *actionSetTest) testOperatorKilled() {
	// Each process of the task appends a line to a file, and waits for another file before it continues.
	a.sample("postgres-blueprint.yaml", "name: postgres\n", "name: postgres-held\n", "cd /backups\n",
		"cd /backups\n          echo started >>started\n          while [ ! -e go ]; do sleep 0.1; done\n")
	a.sample("postgres-backup-actionset.yaml", "name: postgres-backup", "name: killed", "blueprint: postgres", "blueprint: postgres-held", "before-upgrade", "killed")
	started := func() string {
		content, _ := os.ReadFile(filepath.Join(a.backups, "started")) // the file may not exist yet
		return string(content)
	}
	eventually(a.T, "the task runs", patience.Limit, func() bool { return started() != "" })
	task := a.Kubectl(a, "get", "pods", "-n", shop, "-l", "createdBy=kanister", "-o", "jsonpath={.items[*].metadata.uid}")
	holder := func() string { return a.read(a.T, systemNamespace, "lease/"+actions, ".spec.holderIdentity") }
	killed := holder()
	a.killOperators()
	if now := a.Kubectl(a, "get", "pods", "-n", shop, "-l", "createdBy=kanister", "-o", "jsonpath={.items[*].metadata.uid}"); now != task {
		a.Errorf("got the Pods %q of the task, want still %s", now, task)
	}
	if err := os.WriteFile(filepath.Join(a.backups, "go"), nil, 0o600); err != nil {
		a.Fatal(err)
	}
	a.ends("killed", "Complete")
	if now := holder(); now == killed {
		a.Errorf("the leader is still %s: it was not killed", killed)
	}
	if started() != "started\n" {
		a.Errorf("got the starts\n%swant one", started())
	}
	a.loseTable()
	a.comeBack("killed")
	a.Kubectl(a, "rollout", "status", "-n", systemNamespace, "deployment/"+actions, patience.Timeout)
}

// killOperators kills both replicas by SIGKILL, as the kernel does when it is out of memory.
func (a *actionSetTest) killOperators() {
	a.Helper()
	pods := strings.Fields(a.Kubectl(a, "get", "pods", "-n", systemNamespace, "-l", "app.kubernetes.io/component=actions", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(pods) != 2 {
		a.Fatalf("got the Pods %s, want two", pods)
	}
	for _, pod := range pods {
		kill(a.T, processesOf(a.T, "/millwright controllers ", pod))
	}
}

func (a *actionSetTest) testQuiesce() {
	a.sample("quiesce-blueprint.yaml")
	a.sample("quiesce-actionset.yaml")
	a.ends("postgres-quiesced-backup", "Complete")
	a.sql("INSERT INTO orders VALUES ('after the backup')")
	dump, err := os.ReadFile(filepath.Join(a.backups, "all-databases.sql"))
	if err != nil {
		a.Fatal(err)
	}
	contains(a.T, "the dump", string(dump), `\connect shop`, "a clock")

	a.sample("quiesce-blueprint.yaml", "name: postgres-quiesced", "name: quiesced-held", "pg_dumpall --no-role", "while :; do sleep 0.1; done; pg_dumpall --no-role")
	a.sample("quiesce-actionset.yaml", "name: postgres-quiesced-backup", "name: cancelled", "blueprint: postgres-quiesced", "blueprint: quiesced-held")
	eventually(a.T, "the dump is under way", patience.Limit, func() bool {
		return a.Kubectl(a, "get", "pods", "-n", shop, "-l", "createdBy=kanister", "-o", "jsonpath={.items[*].status.phase}") == "Running"
	})
	contains(a.T, "INSERT", a.trySQL("INSERT INTO orders VALUES ('meanwhile')"), "in a read-only transaction")
	a.Kubectl(a, "patch", "actionset", "-n", systemNamespace, "cancelled", "--type=merge", "-p", `{"spec":{"cancel":true}}`)
	a.ends("cancelled", "Failed")
	a.become(a.T, systemNamespace, "actionset/cancelled", "Cancelled")
	a.sql("INSERT INTO orders VALUES ('after the cancelled one')")
}

func (a *actionSetTest) testMaintenance() {
	before := a.podUID(a.T, shop, "postgres-0")
	a.sample("maintenance-blueprint.yaml")
	a.sample("maintenance-actionset.yaml")
	a.ends("postgres-checksums", "Complete")
	if after := a.podUID(a.T, shop, "postgres-0"); after == before || after == "" {
		a.Errorf("got a Pod with the UID %q, want one other than %s: the application was not stopped and started", after, before)
	}
	if got := a.sql("SHOW data_checksums"); got != "on" {
		a.Errorf("got data_checksums %q, want %q", got, "on")
	}
	if got := a.sql("SELECT count(*) FROM orders WHERE item = 'a clock'"); got != "1" {
		a.Errorf("got %s clocks, want 1", got)
	}
}

func (a *actionSetTest) testBatch() {
	a.loadSampleImages(a.T)
	begin := time.Now()
	a.sample("batch-blueprint.yaml")
	a.sample("batch-actionset.yaml")
	a.ends("primes", "Complete")
	got := a.read(a.T, systemNamespace, "actionset/primes", ".status.actions[*].artifacts.primes.keyValue")
	if want := `{"count":"9592","range":"1 to 100000"} {"count":"8392","range":"100001 to 200000"}`; got != want {
		a.Errorf("got the artifacts %s, want %s", got, want)
	}
	a.Logf("took %v", time.Since(begin))
}
