// SPDX-License-Identifier: GPL-2.0
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

/**
 * A service that keeps a buffer for each session. Most of a buffer is never used, as buffers are made for the largest
 * thing that may come. A request opens some sessions, uses one of those there are, and closes others.
 *
 * <p>usage: Service PORT
 */
public final class Service {
    private static final int THREADS = 32;
    private static final int BUFFER = 16384;
    private static final int USED = 300;
    private static final int OPENED = 40;
    private static final int CLOSED_OF_FIVE = 3;

    private static final Map<Integer, byte[]> sessions = new ConcurrentHashMap<>();

    private Service() {}

    private static synchronized int handle(int request) {
        for (int i = request * OPENED; i < (request + 1) * OPENED; i++) {
            byte[] buffer = new byte[BUFFER];
            for (int j = 0; j < USED; j++) {
                buffer[j] = (byte) (i + j);
            }
            sessions.put(i, buffer);
            if (i % 5 < CLOSED_OF_FIVE) {
                sessions.remove(i / 2);
            }
        }
        int sum = 0;
        byte[] used = sessions.get((request + 1) * OPENED - 1);
        for (int j = 0; used != null && j < USED; j++) {
            sum += used[j];
        }
        return sum;
    }

    private static void answer(HttpExchange exchange) throws IOException {
        int request = Integer.parseInt(exchange.getRequestURI().getQuery());
        byte[] text = Integer.toString(handle(request)).getBytes();
        exchange.sendResponseHeaders(200, text.length);
        exchange.getResponseBody().write(text);
        exchange.close();
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Service::answer);
        server.setExecutor(Executors.newFixedThreadPool(THREADS));
        server.start();
    }
}
