package main
import ("testing";"os";"regexp";"context";"time";"fmt"
"github.com/goroce/goroce/bench/stage")
func TestTry(t *testing.T){
 re:=regexp.MustCompile(os.Getenv("TRY"))
 for _,mtu:=range []int{1500,9000}{
  if m:=os.Getenv("MTU"); m!="" && m!=fmt.Sprint(mtu) {continue}
  s,err:=stage.New(mtu); if err!=nil{t.Fatal(err)}
  h:=hostStage{s}
  d,_:=time.ParseDuration(os.Getenv("DUR")); if d==0 {d=time.Second}
  set:=Setting{Bench:"/tmp/bench-cases",Roce:"/tmp/roce-cases",Duration:d}
  set.A,set.B=h.ends()
  shared:=map[string]*performance{}
  for _,c:=range tryCases(mtu){ if !re.MatchString(c.Name){continue}
   t0:=time.Now()
   v,err:=c.play(context.Background(),h,set,shared)
   fmt.Printf("%d %-32s %10.4g %-16s %v  %.1fs\n",mtu,c.Name,v,c.Unit.Name,err,time.Since(t0).Seconds())
  }
  s.Close()
 }
}
func tryCases(mtu int) (cs []Case) { p:=[]string{"udp","packet"}; cs=loadedCases(mtu,p); cs=append(cs,bothWaysCases(mtu,p)...); cs=append(cs,manyCases(mtu,p)...)
for _,x:=range p { cs=append(cs,sendRateCase(mtu,x)) }; return }
