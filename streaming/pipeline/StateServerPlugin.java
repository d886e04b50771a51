package rebalancewatch;

import java.lang.invoke.MethodHandles;
import java.util.Map;

import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.apache.spark.sql.execution.python.streaming.BaseStreamingArrowWriter;

/** Gives each JVM that runs tasks, as it starts, Spark's class of the state server as this jar has it. */
public final class StateServerPlugin implements SparkPlugin, ExecutorPlugin {
    @Override
    public DriverPlugin driverPlugin() {
        return null;
    }

    @Override
    public ExecutorPlugin executorPlugin() {
        return this;
    }

    @Override
    public void init(PluginContext context, Map<String, String> extraConf) {
        try {
            byte[] content = StateServerPlugin.class.getResourceAsStream("StateServer.class").readAllBytes();
            Class<?> neighbour = BaseStreamingArrowWriter.class; // of the same package and loader
            MethodHandles.privateLookupIn(neighbour, MethodHandles.lookup()).defineClass(content);
        } catch (LinkageError error) {
            // "Duplicate definition": a former session of this JVM has defined it. A subclass says that it is wrong.
            if (error.getClass() != LinkageError.class) {
                throw error;
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
