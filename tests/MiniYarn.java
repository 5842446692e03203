import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;
import org.apache.hadoop.yarn.server.resourcemanager.rmapp.RMApp;

/**
 * A ResourceManager and a NodeManager, until the process ends. The file `yarn-site.xml` in the named folder tells their
 * addresses, `applications` the states of all applications.
 */
class MiniYarn {
  public static void main(String[] words) throws Exception {
    MiniYARNCluster cluster = new MiniYARNCluster("lake", 1, 1, 1);
    cluster.init(new YarnConfiguration());
    cluster.start();
    if (!cluster.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("the node does not connect");
    }
    Path folder = Path.of(words[0]);
    StringWriter conf = new StringWriter();
    cluster.getConfig().writeXml(conf);
    write(folder.resolve("yarn-site.xml"), conf.toString());
    while (true) {
      StringBuilder states = new StringBuilder();
      for (RMApp app : cluster.getResourceManager().getRMContext().getRMApps().values()) {
        states.append(app.createApplicationState()).append(' ').append(app.getName()).append('\n');
      }
      write(folder.resolve("applications"), states.toString());
      Thread.sleep(100);
    }
  }

  private static void write(Path file, String text) throws IOException {
    Path arriving = file.resolveSibling("arriving");
    Files.writeString(arriving, text);
    Files.move(arriving, file, StandardCopyOption.ATOMIC_MOVE);
  }
}
